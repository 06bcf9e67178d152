// Fingerprints of encryption keys, and statements that page and rewrite sealed manifests.
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Row = z.object({ fingerprint: z.string(), state: z.enum(['active', 'previous', 'retired']) })
export type KnownKey = z.output<typeof Row>

export const list = rows(
  'encryption_keys.list',
  Row,
  () => `select fingerprint, state from encryption_keys order by created_at, fingerprint`,
)

/** Makes a key the sealing key; the previous one only opens. */
export const activate = count(
  'encryption_keys.activate',
  (p: Slots<{ fingerprint: string }>) => `
  with earlier as (update encryption_keys set state = 'previous', updated_at = now() where state = 'active' and fingerprint <> ${p.fingerprint}::text)
  insert into encryption_keys as k (fingerprint, state) values (${p.fingerprint}::text, 'active')
  on conflict (fingerprint) do update set state = 'active', updated_at = now() where k.state <> 'active'`,
)

export const retireOthers = count(
  'encryption_keys.retireOthers',
  (p: Slots<{ fingerprint: string }>) => `
  update encryption_keys set state = 'retired', updated_at = now() where state <> 'retired' and fingerprint <> ${p.fingerprint}::text`,
)

/** Serializes the key checks of concurrently starting processes until the transaction ends. */
export const lock = count(
  'encryption_keys.lock',
  () => `select pg_advisory_xact_lock(hashtextextended('brokkr:encryption-keys:' || current_schema(), 0))`,
)

/** Allows resealing of deployment objects for the rest of the transaction; their other columns stay immutable. */
export const allowReseal = count('encryption_keys.allowReseal', () => `select set_config('brokkr.reseal', 'on', true)`)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
export type SealedRow = z.output<typeof Sealed>

/** One of the latest sealed rows. */
export const sampleObject = rows(
  'encryption_keys.sampleObject',
  Sealed,
  () => `select id, yaml_sealed as sealed from deployment_objects order by id desc limit 1`,
)

/** At most 100 rows and 8 MiB, or a single larger row; `since` excludes older rows. */
export const objectsPage = rows(
  'encryption_keys.objectsPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, yaml_sealed as sealed from (
    select id, yaml_sealed, sum(yaml_bytes) over (order by id) - yaml_bytes as bytes_before from (
      select id, yaml_sealed, yaml_bytes from deployment_objects
      where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 100) page) measured
  where bytes_before < 8388608 order by id`,
)

/** Compare-and-set: a row that changed concurrently is left for the next pass. */
export const putObject = count(
  'encryption_keys.putObject',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update deployment_objects set yaml_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and yaml_sealed = ${p.was}::bytea`,
)

export const now = one('encryption_keys.now', z.object({ now: z.string() }), () => `select now() as now`)
