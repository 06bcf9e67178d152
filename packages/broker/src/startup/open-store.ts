// Opens the database with migrated schema, first rows and checked encryption keys, and the writers that collect rows for it.
import type { Database } from '@brokkr/postgres'
import { registerGauges } from '../admin/gauges.ts'
import { type AuditWriter, createAuditWriter } from '../audit/record.ts'
import { createUsageWriter, type UsageWriter } from '../auth/usage-writer.ts'
import { bootstrap } from '../bootstrap.ts'
import { createConfiguredSeal, migrateWhenAvailable, openPool } from '../open-database.ts'
import type { Seal } from '../seal.ts'
import { checkKeys } from '../sealing/check-keys.ts'
import { version } from '../version.ts'
import type { StartContext } from './context.ts'

export interface Store {
  readonly sql: Database
  readonly seal: Seal
  readonly audit: AuditWriter
  readonly usage: UsageWriter
}

const usageFlushMs = 5_000

export async function openStore(context: StartContext): Promise<Store> {
  const { config, clock, log, metrics, onClose } = context
  const { sql, seal } = await openSealedDatabase(context)
  onClose('database', () => sql.close())
  registerGauges({ sql, clock, log, metrics }, { version })
  const { audit_flush_ms: flushMs, audit_batch_size: batchRows, session_idle_seconds: sessionIdleSeconds } = config.broker
  const audit = createAuditWriter({ sql, clock, log, metrics }, { flushMs, batchRows })
  onClose('audit', () => audit.close())
  const usage = createUsageWriter({ sql, clock, log }, { flushMs: usageFlushMs, sessionIdleSeconds })
  onClose('usage', () => usage.close())
  return { sql, seal, audit, usage }
}

async function openSealedDatabase({ config, clock, log, metrics }: StartContext): Promise<{ sql: Database; seal: Seal }> {
  const { version: schemaVersion, applied } = await migrateWhenAvailable({ clock, log }, config)
  log.info('schema ready', { version: schemaVersion, applied })
  const sql = openPool(config, { log, metrics, poolSize: config.database.pool_size })
  try {
    await insertFirstRows({ config, log }, sql)
    const seal = createConfiguredSeal(config)
    await checkKeys({ sql, seal })
    return { sql, seal }
  } catch (error) {
    await sql.close()
    throw error
  }
}

async function insertFirstRows({ config, log }: Pick<StartContext, 'config' | 'log'>, sql: Database): Promise<void> {
  const { adminPakFile, hasFullAdminPak } = await bootstrap({ sql }, { ...config.broker, pakForm: config.pak })
  if (adminPakFile !== null) log.info('first admin PAK written', { file: adminPakFile })
  if (!hasFullAdminPak) log.warn('no admin PAK with full rights is left', { next_step: 'run: brokkr broker create admin --name <name>' })
}
