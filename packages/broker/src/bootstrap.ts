// Rows that a broker creates at its first start: the system generator and one admin PAK. The PAK hash is configured, or a new PAK is written
// to a file that only its owner can read.
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import type { Sql } from '@brokkr/postgres'
import { ConfigError } from '@brokkr/runtime/config/config-error.ts'
import * as adminRole from './admin/store/admin-role.ts'
import { recordAuditEntry } from './audit/record.ts'
import { systemActor } from './audit/rules.ts'
import * as auditLogs from './audit/store.ts'
import { writeAdminPakFile } from './auth/admin-pak-file.ts'
import { sampleHashes } from './auth/sample-paks.ts'
import * as generators from './generators/store/generators.ts'
import { uuid7 } from './rules/uuid7.ts'

export interface BootstrapSettings {
  readonly pak_hash: string | null
  readonly admin_pak_file: string
  readonly allow_sample_pak: boolean
  /** Form of a generated PAK. */
  readonly pakForm?: PakForm
}
export interface BootstrapResult {
  /** Path of the new admin PAK, if one was created. */
  readonly adminPakFile: string | null
  /** False if every PAK with full rights was revoked or has expired; then only a command on the database can create one. */
  readonly hasFullAdminPak: boolean
}

export async function bootstrap(deps: { sql: Sql }, settings: BootstrapSettings): Promise<BootstrapResult> {
  return deps.sql.begin(async (sql) => {
    // Several processes may start at once; the first one creates the rows.
    await adminRole.lock(sql, {})
    // After months without a running broker this month has no partition, and its first row would go to the default partition.
    await auditLogs.makePartitions(sql, {})
    await ensureSystemGenerator(sql)
    const isFirstStart = (await adminRole.recordFirstStart(sql, {})) === 1
    // A command may have created a PAK before the first start; then none is needed, and a revoked hash does not return.
    const isEmpty = !(await adminRole.existing(sql, {})).ever
    const adminPakFile = isFirstStart && isEmpty ? await createFirstAdminPak(sql, settings) : null
    if (!settings.allow_sample_pak) await refuseSamplePaks(sql)
    return { adminPakFile, hasFullAdminPak: (await adminRole.existing(sql, {})).full }
  })
}

async function ensureSystemGenerator(sql: Sql): Promise<void> {
  if ((await generators.system(sql, {})) !== null) return
  const noPak = { pak_hash: null, pak_short: null }
  await generators.insert(sql, { id: uuid7(), name: '__system__', description: 'Stacks of the platform itself', is_system: true, ...noPak })
  await generators.insert(sql, { id: uuid7(), name: 'admin-generator', description: 'Linked to Admin PAK', is_system: false, ...noPak })
}

async function createFirstAdminPak(sql: Sql, settings: BootstrapSettings): Promise<string | null> {
  const newPak = settings.pak_hash === null ? await generatePak(settings.pakForm) : null
  const id = uuid7()
  await adminRole.insert(sql, {
    id,
    name: newPak === null ? 'configured' : 'first',
    pak_hash: newPak?.hash ?? settings.pak_hash!,
    pak_short: newPak?.short ?? null,
    readonly: false,
    scope: null,
    expires_at: null,
  })
  await recordAuditEntry(sql, { actor: systemActor, action: 'pak.created', resource: { type: 'pak', id } })
  if (newPak === null) return null
  // Written before the commit: a stored PAK without its file would lock out all admins.
  await writeAdminPakFile(settings.admin_pak_file, newPak.pak)
  return settings.admin_pak_file
}

/** A sample PAK may have been stored by an earlier start that allowed it. */
async function refuseSamplePaks(sql: Sql): Promise<void> {
  const { live } = await adminRole.countLiveAmong(sql, { hashes: [...sampleHashes] })
  if (live === 0) return
  const problem = 'an admin PAK of this database is a published sample PAK: replace it with brokkr broker rotate admin'
  throw new ConfigError([{ path: 'broker.allow_sample_pak', where: '', problem }])
}
