// The rows a broker needs at its first start: the system generator, and one admin key. No key is built in: either its hash
// was configured, or one is minted into a file that only its owner can read.
import { makePak } from '@brokkr/contract/pak.ts'
import { ConfigError } from '@brokkr/runtime/config-error.ts'
import { recordDeed } from './audit.ts'
import { systemActor } from './domain/actor.ts'
import { sampleHashes } from './domain/sample-keys.ts'
import { uuid7 } from './domain/uuid7.ts'
import { writeKeyFile } from './key-file.ts'
import * as adminRole from './store/admin-role.ts'
import * as auditLogs from './store/audit-logs.ts'
import * as generators from './store/generators.ts'
import type { Sql } from './store/sql.ts'

export interface BootstrapSettings {
  readonly pak_hash: string | null
  readonly admin_pak_file: string
  readonly allow_sample_pak: boolean
}
export interface Bootstrapped {
  /** Where the first admin key was written, if one was minted now. */
  readonly adminPakFile: string | null
}

export async function bootstrap(deps: { sql: Sql }, settings: BootstrapSettings): Promise<Bootstrapped> {
  return deps.sql.begin(async (sql) => {
    // Several processes may start at once; the first one makes the rows, the others find them.
    await adminRole.lock(sql, {})
    // After months of rest this month has no partition yet, and the first row would take its place.
    await auditLogs.makePartitions(sql, {})
    await ensureSystemGenerator(sql)
    const { live } = await adminRole.countLive(sql, {})
    const adminPakFile = live > 0 ? null : await firstAdminKey(sql, settings)
    if (!settings.allow_sample_pak) await refuseSampleKeys(sql)
    return { adminPakFile }
  })
}

async function ensureSystemGenerator(sql: Sql): Promise<void> {
  if ((await generators.system(sql, {})) !== null) return
  const none = { pak_hash: null, pak_short: null }
  await generators.insert(sql, { id: uuid7(), name: '__system__', description: 'Stacks of the platform itself', is_system: true, ...none })
  await generators.insert(sql, { id: uuid7(), name: 'admin-generator', description: 'Linked to Admin PAK', is_system: false, ...none })
}

async function firstAdminKey(sql: Sql, settings: BootstrapSettings): Promise<string | null> {
  const made = settings.pak_hash === null ? await makePak() : null
  const id = uuid7()
  await adminRole.insert(sql, {
    id,
    name: made === null ? 'configured' : 'first',
    pak_hash: made?.hash ?? settings.pak_hash!,
    pak_short: made?.short ?? null,
    readonly: false,
    scope: null,
    expires_at: null,
  })
  await recordDeed(sql, { by: systemActor, action: 'pak.created', on: { type: 'pak', id } })
  if (made === null) return null
  // Written before the commit: a key that nobody can read would lock everybody out.
  await writeKeyFile(settings.admin_pak_file, made.pak)
  return settings.admin_pak_file
}

/** Stored by an earlier start that allowed it: this one does not. */
async function refuseSampleKeys(sql: Sql): Promise<void> {
  const { live } = await adminRole.countLiveAmong(sql, { hashes: [...sampleHashes] })
  if (live === 0) return
  const problem = 'an admin key of this database is a published sample key, which everybody knows: replace it (brokkr broker rotate admin)'
  throw new ConfigError([{ path: 'broker.allow_sample_pak', where: '', problem }])
}
