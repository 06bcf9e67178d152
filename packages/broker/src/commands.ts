// What an operator does on the broker's database directly, without a running broker: the same settings as `brokkr broker`.
import { makePak } from '@brokkr/contract/pak.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config.ts'
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import { createAdminPak } from './actions/create-admin-pak.ts'
import { createAgent } from './actions/create-agent.ts'
import { createGenerator } from './actions/create-generator.ts'
import { setAdminKey } from './actions/rotate-admin-pak.ts'
import { rotateAgentPak } from './actions/rotate-agent-pak.ts'
import { rotateGeneratorPak } from './actions/rotate-generator-pak.ts'
import { checkKeys } from './check-keys.ts'
import { type BrokerConfig, brokerTable, checkBrokerConfig } from './config.ts'
import { systemActor } from './domain/actor.ts'
import { feedChannel } from './domain/feed-channel.ts'
import { fromDatabase } from './http/database-error.ts'
import type { Verb } from './http/verbs.ts'
import { migrated, openPool, sealOf } from './open-store.ts'
import { type Resealed, reseal } from './reseal.ts'
import * as adminRole from './store/admin-role.ts'
import * as agents from './store/agents.ts'
import * as changeLog from './store/change-log.ts'
import type { Database } from './store/db.ts'
import * as generators from './store/generators.ts'
import { freshSubscriptions } from './webhooks/subscriptions.ts'

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
    const row = chosenKey(await adminRole.list(sql, { limit: 10_000 }), input.name)
    const hash = input.useConfiguredHash === true ? configuredHash(config) : null
    if (row === null && hash === null) {
      const made = await createAdminPak(quiet(sql), { name: input.name ?? 'admin', callerScope: null, by })
      return { name: made.name, pak: made.pak }
    }
    if (row === null) throw new Error('there is no admin key to store the hash in: start the broker once, it takes broker.pak_hash')
    const made = hash === null ? await makePak() : { hash, short: null, pak: null }
    await sql.begin((tx) => setAdminKey(tx, { id: row.id, callerScope: null, by }, made))
    return { name: row.name, pak: made.pak }
  })

export interface MadeKey {
  readonly id: string
  readonly name: string
  /** Shown once. */
  readonly pak: string
}
const by = systemActor
const quiet = (sql: Database) => ({ sql, hooks: freshSubscriptions(), wakeFeed: () => undefined })

export interface NewAdmin extends CommandInput {
  readonly name: string
  readonly readonly?: boolean | undefined
  readonly scope?: readonly string[] | undefined
}
/** `brokkr broker create admin`. */
export const createAdmin = (input: NewAdmin): Promise<MadeKey> =>
  withDatabase(input, (sql) => {
    const unknown = input.scope?.find((verb) => !verbs.includes(verb))
    if (unknown !== undefined) throw new Error(`${JSON.stringify(unknown)} is no verb; there are ${verbs.join(', ')}`)
    return createAdminPak(quiet(sql), { name: input.name, readonly: input.readonly, scope: input.scope, callerScope: null, by })
  })
const verbs: readonly string[] = ['read', 'deploy', 'operate', 'approve', 'notify', 'admin'] satisfies Verb[]

/** `brokkr broker create generator`. */
export const createGeneratorKey = (input: CommandInput & { name: string; description?: string | undefined }): Promise<MadeKey> =>
  withDatabase(input, async (sql) => {
    const { generator, pak } = await createGenerator(quiet(sql), { name: input.name, description: input.description, by })
    return { id: generator.id, name: generator.name, pak }
  })

export interface NewAgentKey extends CommandInput {
  readonly name: string
  readonly clusterName: string
  /** By name. */
  readonly generators: readonly string[]
  readonly labels: readonly string[]
}
/** `brokkr broker create agent`. */
export const createAgentKey = (input: NewAgentKey): Promise<MadeKey> =>
  withDatabase(input, async (sql) => {
    const generator_ids = await Promise.all(input.generators.map((name) => generatorNamed(sql, name)))
    const { name, clusterName: cluster_name, labels } = input
    const { agent, initial_pak } = await createAgent(quiet(sql), { name, cluster_name, generator_ids, labels, by })
    return { id: agent.id, name: agent.name, pak: initial_pak }
  })

/** `brokkr broker rotate generator`. */
export const rotateGenerator = (input: CommandInput & { name: string }): Promise<MadeKey> =>
  withDatabase(input, async (sql) => {
    const { generator, pak } = await rotateGeneratorPak(quiet(sql), { generatorId: await generatorNamed(sql, input.name), by })
    return { id: generator.id, name: generator.name, pak }
  })

/** `brokkr broker rotate agent`. */
export const rotateAgent = (input: CommandInput & { name: string; clusterName: string }): Promise<MadeKey> =>
  withDatabase(input, async (sql) => {
    const found = await agents.find(sql, { name: input.name, cluster_name: input.clusterName })
    if (found === null) throw new Error(`no agent is named ${input.name} in cluster ${input.clusterName}: brokkr get agents lists them`)
    const { agent, pak } = await rotateAgentPak(quiet(sql), { agentId: found.id, short_token: undefined, pak_hash: undefined, by })
    return { id: agent.id, name: agent.name, pak: pak! }
  })

async function generatorNamed(sql: Database, name: string): Promise<string> {
  const [found] = await generators.list(sql, { name, after_name: '', after_id: nilId, limit: 1 })
  if (found === undefined) throw new Error(`no generator is named ${name}: brokkr get generators lists them`)
  return found.id
}
const nilId = '00000000-0000-0000-0000-000000000000'

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

async function withDatabase<T>(input: CommandInput, work: (sql: Database, config: BrokerConfig) => Promise<T> | T): Promise<T> {
  const { config, log } = await settings(input)
  const database = openPool(config, { poolSize: 2, log })
  try {
    const result = await work(database, config)
    // Running brokers learn of what was done as of any other commit.
    await changeLog.notify(database, { channel: feedChannel(config.database.schema), payload: '' })
    return result
  } catch (error) {
    throw explained(error)
  } finally {
    await database.close()
  }
}

/** What the database said, in words of the broker; of a database that was never migrated, what to do. */
function explained(error: unknown): unknown {
  if (error instanceof Error && 'code' in error && (error.code === '42P01' || error.code === '3F000'))
    return new Error('this schema holds no broker yet: run brokkr broker migrate first, or check database.schema', { cause: error })
  return fromDatabase(error) ?? error
}
