// Operator commands that work directly on the broker's database, without a running broker. They use the settings of `brokkr broker`.

import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Database } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { createLog, type Log } from '@brokkr/runtime/logging/log.ts'
import { createAdminPak, setAdminPak } from './admin/actions/admin-paks.ts'
import * as adminRole from './admin/store/admin-role.ts'
import { createAgent } from './agents/actions/agents.ts'
import { rotateAgentPak } from './agents/actions/rotate-agent-pak.ts'
import * as agents from './agents/store/agents.ts'
import { systemActor } from './audit/rules.ts'
import { createLoginLink } from './auth/actions/login-links.ts'
import type { Verb } from './auth/permit-tables.ts'
import { toNotifyChannel } from './change-feed/rules.ts'
import * as changeLog from './change-feed/store/change-log.ts'
import { type BrokerConfig, brokerTable, checkBrokerConfig, isTls, listenHost } from './config.ts'
import { createGenerator, rotateGeneratorPak } from './generators/actions/generators.ts'
import * as generators from './generators/store/generators.ts'
import { toDatabaseError } from './http/response/database-error.ts'
import { createConfiguredSeal, migrateWhenAvailable, openPool } from './open-database.ts'
import { checkKeys } from './sealing/check-keys.ts'
import { type ResealResult, reseal } from './sealing/reseal.ts'
import { freshSubscriptions } from './webhooks/subscriptions/subscription-cache.ts'

export interface CommandInput {
  readonly env: NodeJS.ProcessEnv
}

/** `brokkr broker migrate`: migrates the schema to this release. */
export async function migrateDatabase(input: CommandInput): Promise<{ version: number; applied: number }> {
  const { config, log } = await settings(input)
  return migrateWhenAvailable({ clock: systemClock, log }, config)
}

/** `brokkr broker reseal`: reseals all sealed values with broker.encryption_key. */
export const resealDatabase = (input: CommandInput): Promise<ResealResult> =>
  withDatabase(input, async (sql, config) => {
    const seal = createConfiguredSeal(config)
    await checkKeys({ sql, seal })
    return reseal({ sql, seal })
  })

export interface RotateAdmin extends CommandInput {
  /** Required if there are several admin PAKs. */
  readonly name?: string | undefined
  /** Stores broker.pak_hash instead of creating a PAK. */
  readonly useConfiguredHash?: boolean | undefined
}
/** `brokkr broker rotate admin`: restores access for operators who can write to the database. */
export const rotateAdmin = (input: RotateAdmin): Promise<{ name: string; pak: string | null }> =>
  withDatabase(input, async (sql, config) => {
    const row = selectAdminPak(await adminRole.list(sql, { limit: 10_000 }), input.name)
    const hash = input.useConfiguredHash === true ? configuredHash(config) : null
    if (row === null && hash === null) {
      const newPak = await createAdminPak(toActionDeps(sql, config), { name: input.name ?? 'admin', actor })
      return { name: newPak.name, pak: newPak.pak }
    }
    if (row === null) throw new Error('there is no admin PAK to store the hash in: run brokkr broker create admin --name <name>')
    const newPak = hash === null ? await generatePak(config.pak) : { hash, short: null, pak: null }
    await sql.begin((tx) => setAdminPak(tx, { id: row.id, actor }, newPak))
    return { name: row.name, pak: newPak.pak }
  })

export interface CreatedPak {
  readonly id: string
  readonly name: string
  /** Shown once. */
  readonly pak: string
}
const actor = systemActor
const toActionDeps = (sql: Database, config: BrokerConfig) => ({
  sql,
  subscriptionCache: freshSubscriptions(),
  wakeFeed: () => undefined,
  pakForm: config.pak,
})

export interface NewAdmin extends CommandInput {
  readonly name: string
  readonly readonly?: boolean | undefined
  readonly scope?: readonly string[] | undefined
}
/** `brokkr broker create admin`. */
export const createAdmin = (input: NewAdmin): Promise<CreatedPak> =>
  withDatabase(input, (sql, config) => {
    const unknown = input.scope?.find((verb) => !verbs.includes(verb))
    if (unknown !== undefined) throw new Error(`${JSON.stringify(unknown)} is not a verb; valid verbs are ${verbs.join(', ')}`)
    return createAdminPak(toActionDeps(sql, config), { name: input.name, readonly: input.readonly, scope: input.scope, actor })
  })
const verbs: readonly string[] = ['read', 'deploy', 'operate', 'approve', 'notify', 'admin'] satisfies Verb[]

/** `brokkr broker create generator`. */
export const createGeneratorKey = (input: CommandInput & { name: string; description?: string | undefined }): Promise<CreatedPak> =>
  withDatabase(input, async (sql, config) => {
    const { generator, pak } = await createGenerator(toActionDeps(sql, config), { name: input.name, description: input.description, actor })
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
export const createAgentKey = (input: NewAgentKey): Promise<CreatedPak> =>
  withDatabase(input, async (sql, config) => {
    const generator_ids = await Promise.all(input.generators.map((name) => requireGeneratorId(sql, name)))
    const { name, clusterName: cluster_name, labels } = input
    const { agent, initial_pak } = await createAgent(toActionDeps(sql, config), { name, cluster_name, generator_ids, labels, actor })
    return { id: agent.id, name: agent.name, pak: initial_pak }
  })

/** `brokkr broker rotate generator`. */
export const rotateGenerator = (input: CommandInput & { name: string }): Promise<CreatedPak> =>
  withDatabase(input, async (sql, config) => {
    const { generator, pak } = await rotateGeneratorPak(toActionDeps(sql, config), {
      generatorId: await requireGeneratorId(sql, input.name),
      actor,
    })
    return { id: generator.id, name: generator.name, pak }
  })

/** `brokkr broker rotate agent`. */
export const rotateAgent = (input: CommandInput & { name: string; clusterName: string }): Promise<CreatedPak> =>
  withDatabase(input, async (sql, config) => {
    const match = await agents.find(sql, { name: input.name, cluster_name: input.clusterName })
    if (match === null)
      throw new ApiError('not_found', `no agent is named ${input.name} in cluster ${input.clusterName}: brokkr get agents lists them`)
    const { agent, pak } = await rotateAgentPak(toActionDeps(sql, config), {
      agentId: match.id,
      short_token: undefined,
      pak_hash: undefined,
      actor,
    })
    return { id: agent.id, name: agent.name, pak: pak! }
  })

export interface NewLoginLink extends CommandInput {
  /** Admin PAK whose rights the session gets; required if there are several. */
  readonly name?: string | undefined
  readonly readonly?: boolean | undefined
  /** Address by which browsers reach the broker; without it, the one of the settings. */
  readonly url?: string | undefined
}
/** `brokkr broker create login-link`. */
export const createAdminLoginLink = (input: NewLoginLink): Promise<{ url: string; expires_at: string; name: string }> =>
  withDatabase(input, async (sql, config) => {
    const row = selectAdminPak(await adminRole.list(sql, { limit: 10_000 }), input.name)
    if (row === null) throw new Error('there is no admin PAK to sign in with: run brokkr broker create admin --name <name>')
    const link = await createLoginLink(
      { sql },
      {
        identity: { kind: 'admin', id: row.id },
        pakHash: null,
        readonly: row.readonly || input.readonly === true,
        seconds: config.broker.login_link_seconds,
        baseUrl: toBaseUrl(input.url ?? defaultUrl(config)),
        actor,
      },
    )
    return { ...link, name: row.name }
  })

/** Browsers reach a broker that listens on all addresses by loopback too. */
function defaultUrl(config: BrokerConfig): string {
  const host = listenHost(config)
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
  return `${isTls(config.server) ? 'https' : 'http'}://${name}:${config.server.port}`
}

function toBaseUrl(text: string): string {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new Error(`${JSON.stringify(text)} is not the address of a broker: use one such as https://broker.example.com`)
  return url.origin
}

async function requireGeneratorId(sql: Database, name: string): Promise<string> {
  const [match] = await generators.list(sql, { name, after_name: '', after_id: nilId, limit: 1 })
  if (match === undefined) throw new ApiError('not_found', `no generator is named ${name}: brokkr get generators lists them`)
  return match.id
}
const nilId = '00000000-0000-0000-0000-000000000000'

function selectAdminPak<Row extends { readonly name: string }>(rows: readonly Row[], name: string | undefined): Row | null {
  const candidates = rows.filter((row) => name === undefined || row.name === name)
  if (candidates.length > 1)
    throw new Error(
      `there are ${candidates.length} admin PAKs (${candidates.map((row) => row.name).join(', ')}): name one of them with --name`,
    )
  if (candidates[0] === undefined && name !== undefined && rows.length > 0)
    throw new ApiError('not_found', `no admin PAK is named ${name}; there are ${rows.map((row) => row.name).join(', ')}`)
  return candidates[0] ?? null
}

function configuredHash({ broker }: BrokerConfig): string {
  if (broker.pak_hash === null)
    throw new Error('broker.pak_hash is empty: set it to the hash of a PAK, or run the command without it to create one')
  return broker.pak_hash
}

async function settings({ env }: CommandInput): Promise<{ config: BrokerConfig; log: Log }> {
  const { value: config } = await loadConfig({ table: brokerTable, env, ignoredSections: ['agent', 'cli'], check: checkBrokerConfig })
  // Standard output is the result of the command, so logs go to standard error.
  const log = createLog({ name: 'brokkr-broker', level: 'warn', format: config.log.format, destination: process.stderr })
  return { config, log }
}

async function withDatabase<T>(input: CommandInput, work: (sql: Database, config: BrokerConfig) => Promise<T> | T): Promise<T> {
  const { config, log } = await settings(input)
  const database = openPool(config, { poolSize: 2, log })
  try {
    const result = await work(database, config)
    // Running brokers are notified as after any other commit.
    await changeLog.notify(database, { channel: toNotifyChannel(config.database.schema), payload: '' })
    return result
  } catch (error) {
    throw toCommandError(error)
  } finally {
    await database.close()
  }
}

/** Translates database errors; for a database without migrations it names the next step. */
function toCommandError(error: unknown): unknown {
  if (error instanceof Error && 'code' in error && (error.code === '42P01' || error.code === '3F000'))
    return new Error('this schema has no broker tables: run brokkr broker migrate first, or check database.schema', { cause: error })
  return toDatabaseError(error) ?? error
}
