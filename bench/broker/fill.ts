// Fills a migrated database: a fleet as large as told, histories as long as told, and keys for the callers of the load. Rows go in
// by set with the triggers off, which would take hours for 100,000 stacks; what they would have kept is written beside it.
import { randomUUID } from 'node:crypto'
import { systemActor } from '@brokkr/broker/audit/rules.ts'
import { createSeal } from '@brokkr/broker/seal.ts'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import pg from 'pg'

export interface Fleet {
  readonly generator: Caller
  readonly agents: readonly (Caller & { readonly stackIds: readonly string[]; readonly headIds: readonly string[] })[]
}
interface Caller {
  readonly id: string
  readonly pak: string
}
export interface FleetSize {
  readonly agents: number
  readonly stacksPerAgent: number
  readonly objectsPerStack: number
  /** Stacks outside the load, with one small deployment object each: the rest of the fleet. */
  readonly otherStacks: number
  readonly objectBytes: number
}

export async function fill(url: string, encryptionKey: string, size: FleetSize): Promise<Fleet> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    // Commits without waiting for the disk, because the measurement starts later. Deployment objects have no transaction id, so the feed skips them.
    await client.query(`set session_replication_role = replica; set synchronous_commit = off`)
    const generator = await addGenerator(client)
    const agents = []
    for (let n = 0; n < size.agents; n += 1) agents.push(await addAgent(client, { n, generator: generator.id, encryptionKey, size }))
    await addOthers(client, { count: size.otherStacks, generator: generator.id, encryptionKey })
    // As rows lie after their first hour, without the dead versions that filling leaves; the server would do it some time while we measure.
    await client.query('vacuum (analyze)')
    return { generator, agents }
  } finally {
    await client.end()
  }
}

async function addGenerator(client: pg.Client): Promise<Caller> {
  const { pak, hash, short } = await generatePak()
  const id = randomUUID()
  await client.query('insert into generators (id, name, pak_hash, pak_short) values ($1, $2, $3, $4)', [id, `bench-${id}`, hash, short])
  return { id, pak }
}

async function addAgent(
  client: pg.Client,
  { n, generator, encryptionKey, size }: { n: number; generator: string; encryptionKey: string; size: FleetSize },
) {
  const { pak, hash, short } = await generatePak()
  const id = randomUUID()
  await client.query(
    `insert into agents (id, name, cluster_name, status, connection_state, connected_at, agent_version, pak_hash, pak_short)
     values ($1, $2, $2, 'ACTIVE', 'connected', now(), '1.0.0', $3, $4)`,
    [id, `agent-${n}-${id}`, hash, short],
  )
  await client.query('insert into agent_liveness (agent_id, last_seen_at) values ($1, now())', [id])
  await client.query('insert into agent_generator_registrations (id, agent_id, generator_id) values (gen_random_uuid(), $1, $2)', [
    id,
    generator,
  ])
  const stackIds = Array.from({ length: size.stacksPerAgent }, () => randomUUID())
  const headIds = await addStacks(client, { stackIds, generator, encryptionKey, size })
  await client.query(
    'insert into agent_targets (id, agent_id, stack_id, explicit) select gen_random_uuid(), $1, unnest($2::uuid[]), true',
    [id, stackIds],
  )
  return { id, pak, stackIds, headIds }
}

/** A manifest of a given length that reads like one. */
export const buildManifest = (bytes: number): string => {
  const head = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: shop\ndata:\n'
  const line = (n: number) => `  setting-${String(n).padStart(4, '0')}: "the quick brown fox jumps over the lazy dog"\n`
  let manifest = head
  for (let n = 0; manifest.length + line(n).length <= Math.max(bytes, head.length); n += 1) manifest += line(n)
  return manifest
}

async function addStacks(
  client: pg.Client,
  { stackIds, generator, encryptionKey, size }: { stackIds: string[]; generator: string; encryptionKey: string; size: FleetSize },
): Promise<string[]> {
  const seal = createSeal([Buffer.from(encryptionKey, 'hex')])
  const manifest = buildManifest(size.objectBytes)
  const headIds: string[] = []
  await client.query(
    `insert into stacks (id, name, generator_id, last_sequence) select id, 'stack-' || id, $2, $3 from unnest($1::uuid[]) as id`,
    [stackIds, generator, size.objectsPerStack],
  )
  for (const stackId of stackIds) {
    const ids = Array.from({ length: size.objectsPerStack }, () => randomUUID())
    const sealed = ids.map((id) => seal.seal({ table: 'deployment_objects', column: 'yaml_sealed', id }, manifest))
    await client.query(
      `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind, xid)
       select o.id, $3, o.n, o.sealed, $4, md5('a') || md5('b'), $5, '0' from unnest($1::uuid[], $2::bytea[]) with ordinality as o (id, sealed, n)`,
      [ids, sealed, stackId, Buffer.byteLength(manifest), systemActor.kind],
    )
    headIds.push(ids.at(-1)!)
  }
  await client.query(
    'update stacks s set head_object_id = h.id from unnest($1::uuid[], $2::uuid[]) as h (stack, id) where s.id = h.stack',
    [stackIds, headIds],
  )
  return headIds
}

async function addOthers(
  client: pg.Client,
  { count, generator, encryptionKey }: { count: number; generator: string; encryptionKey: string },
): Promise<void> {
  const seal = createSeal([Buffer.from(encryptionKey, 'hex')])
  for (let done = 0; done < count; done += 5_000) {
    const ids = Array.from({ length: Math.min(5_000, count - done) }, () => randomUUID())
    const sealed = ids.map((id) => seal.seal({ table: 'deployment_objects', column: 'yaml_sealed', id }, 'a: 1'))
    await client.query(
      `with given as (select gen_random_uuid() as stack, o.id, o.sealed from unnest($1::uuid[], $2::bytea[]) as o (id, sealed)),
       made as (insert into stacks (id, name, generator_id, last_sequence, head_object_id) select stack, 'other-' || id, $3, 1, id from given)
       insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind, xid)
       select id, stack, 1, sealed, 4, '', 'system', '0' from given`,
      [ids, sealed, generator],
    )
  }
}
