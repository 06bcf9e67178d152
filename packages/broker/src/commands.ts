// What an operator does on the broker's database directly, without a running broker: the same settings as `brokkr broker`.
import { makePak } from '@brokkr/contract/pak.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config.ts'
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import { createAdminPak } from './actions/create-admin-pak.ts'
import { setAdminKey } from './actions/rotate-admin-pak.ts'
import { checkKeys } from './check-keys.ts'
import { type BrokerConfig, brokerTable, checkBrokerConfig } from './config.ts'
import { systemActor } from './domain/actor.ts'
import { migrated, openPool, sealOf } from './open-store.ts'
import { type Resealed, reseal } from './reseal.ts'
import * as adminRole from './store/admin-role.ts'
import * as changeLog from './store/change-log.ts'
import type { Database } from './store/db.ts'

export interface CommandInput {
  readonly env: NodeJS.ProcessEnv
}

/** `brokkr broker migrate`: brings the schema to this release and ends. */
export async function migrateDatabase(input: CommandInput): Promise<{ version: number; applied: number }> {
  const { config, log } = await settings(input)
  return migrated({ clock: systemClock, log }, config)
}

/** `brokkr broker reseal`: everything sealed is sealed anew under broker.encryption_key. */
export const resealDatabase = (input: CommandInput): Promise<Resealed> =>
  withDatabase(input, async (sql, config) => {
    const seal = sealOf(config)
    await checkKeys({ sql, seal })
    return reseal({ sql, seal })
  })

export interface RotateAdmin extends CommandInput {
  /** Needed where there are several admin keys. */
  readonly name?: string | undefined
  /** Store broker.pak_hash instead of making a key. */
  readonly useConfiguredHash?: boolean | undefined
}
/** `brokkr broker rotate admin`: the way back in, for whoever may write to the database. */
export const rotateAdmin = (input: RotateAdmin): Promise<{ name: string; pak: string | null }> =>
  withDatabase(input, async (sql, config) => {
    const wakeFeed = () => undefined
    const by = systemActor
    const row = chosenKey(await adminRole.list(sql, { limit: 10_000 }), input.name)
    const hash = input.useConfiguredHash === true ? configuredHash(config) : null
    if (row === null && hash === null) {
      const made = await createAdminPak({ sql, wakeFeed }, { name: input.name ?? 'admin', callerScope: null, by })
      return { name: made.name, pak: made.pak }
    }
    if (row === null) throw new Error('there is no admin key to store the hash in: start the broker once, it takes broker.pak_hash')
    const made = hash === null ? await makePak() : { hash, short: null, pak: null }
    await sql.begin((tx) => setAdminKey(tx, { id: row.id, callerScope: null, by }, made))
    return { name: row.name, pak: made.pak }
  })

function chosenKey<Row extends { readonly name: string }>(rows: readonly Row[], name: string | undefined): Row | null {
  const named = rows.filter((row) => name === undefined || row.name === name)
  if (named.length > 1)
    throw new Error(`there are ${named.length} admin keys (${named.map((row) => row.name).join(', ')}): name one of them with --name`)
  if (named[0] === undefined && name !== undefined && rows.length > 0)
    throw new Error(`no admin key is named ${name}; there are ${rows.map((row) => row.name).join(', ')}`)
  return named[0] ?? null
}

function configuredHash({ broker }: BrokerConfig): string {
  if (broker.pak_hash === null) throw new Error('broker.pak_hash is empty: set it to the hash of the key, or let this command make one')
  return broker.pak_hash
}

async function settings({ env }: CommandInput): Promise<{ config: BrokerConfig; log: Log }> {
  const { value: config } = await loadConfig({ table: brokerTable, env, ignoredSections: ['agent', 'cli'], check: checkBrokerConfig })
  // Standard output is the command's answer; what happens on the way goes beside it.
  const log = createLog({ name: 'brokkr-broker', level: 'warn', format: config.log.format, destination: process.stderr })
  return { config, log }
}

async function withDatabase<T>(input: CommandInput, work: (sql: Database, config: BrokerConfig) => Promise<T>): Promise<T> {
  const { config, log } = await settings(input)
  const database = openPool(config, { poolSize: 2, log })
  try {
    const result = await work(database, config)
    // Running brokers learn of what was done as of any other commit.
    await changeLog.notify(database, { channel: `brokkr_feed_${config.database.schema}`, payload: '' })
    return result
  } finally {
    await database.close()
  }
}
