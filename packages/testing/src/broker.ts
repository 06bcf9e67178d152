// A real broker as a process on a database of its own, with an admin's client. Settings by environment, as operators give them.
import { randomBytes } from 'node:crypto'
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { type Client, createClient } from '@brokkr/contract/client.ts'
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { logLine, type ProgramProcess, startProgram } from './program.ts'
import { database } from './servers/postgres.ts'
import { waitFor } from './wait-for.ts'

export type TestBroker = ProgramProcess & {
  readonly url: string
  readonly databaseUrl: string
  readonly adminPak: string
  /** The key that seals manifests, for tests that write rows by hand. */
  readonly encryptionKey: string
  readonly admin: Client
  clientOf(pak: string): Client
  /** The same broker again after a kill: same port, database and keys. */
  again(): Promise<TestBroker>
  /** Another process beside it: same database and keys, a port of its own. */
  sibling(env?: Record<string, string>): Promise<TestBroker>
}

export async function startTestBroker(
  options: { databaseUrl?: string; env?: Record<string, string>; main?: string } = {},
): Promise<TestBroker> {
  const databaseUrl = options.databaseUrl ?? (await database()).url
  const { pak, hash } = await generatePak()
  const port = await freePort()
  const encryptionKey = options.env?.['BROKKR__BROKER__ENCRYPTION_KEY'] ?? randomBytes(32).toString('hex')
  const env = {
    DATABASE_URL: databaseUrl,
    BROKKR__SERVER__PORT: String(port),
    // Several brokers of several test files share one server.
    BROKKR__DATABASE__POOL_SIZE: '15',
    BROKKR__BROKER__PAK_HASH: hash,
    BROKKR__BROKER__ENCRYPTION_KEY: encryptionKey,
    BROKKR__LOG__LEVEL: 'debug',
    // Writes denials immediately, so that tests need not wait for a batch.
    BROKKR__BROKER__AUDIT_FLUSH_MS: '50',
    ...options.env,
  }
  const main = options.main ?? 'packages/broker/src/main.ts'
  return run({ url: `http://127.0.0.1:${port}`, databaseUrl, adminPak: pak, encryptionKey, env, main })
}

async function run(given: {
  url: string
  databaseUrl: string
  adminPak: string
  encryptionKey: string
  env: Record<string, string>
  main: string
}): Promise<TestBroker> {
  const { url, databaseUrl, adminPak, encryptionKey, env, main } = given
  const program = await startProgram({ name: 'broker', main, env })
  await logLine(program, 'broker ready')
  await waitFor('the broker to be ready', async () => (await fetch(`${url}/readyz`)).status === 200, {
    limitMs: 60_000,
    onTimeout: () => program.logTail(20),
  })
  const clientOf = (pak: string) => createClient({ baseUrl: url, pak: () => pak, userAgent: 'brokkr-test' })
  const sibling = async (more: Record<string, string> = {}) => {
    const port = await freePort()
    return run({ ...given, url: `http://127.0.0.1:${port}`, env: { ...env, BROKKR__SERVER__PORT: String(port), ...more } })
  }
  return Object.assign(program, {
    url,
    databaseUrl,
    adminPak,
    encryptionKey,
    admin: clientOf(adminPak),
    clientOf,
    again: () => run(given),
    sibling,
  })
}

export type TestGenerator = { readonly generator: Generator; readonly pak: string; readonly client: Client }

/** A generator with its own client; names are unique per call. */
export async function createGenerator(broker: TestBroker, name: string = unique('generator')): Promise<TestGenerator> {
  const { generator, pak } = await broker.admin.createGenerator({ body: { name } })
  return { generator, pak, client: broker.clientOf(pak) }
}

export type TestAgent = { readonly agent: Agent; readonly pak: string; readonly client: Client }

/** An ACTIVE agent registered with the given generators. */
export async function createAgent(
  broker: Pick<TestBroker, 'admin' | 'clientOf'>,
  options: { name?: string; labels?: string[]; generators: TestGenerator[] },
): Promise<TestAgent> {
  const name = options.name ?? unique('agent')
  const generator_ids = options.generators.map(({ generator }) => generator.id)
  const { agent, initial_pak } = await broker.admin.createAgent({
    body: { name, cluster_name: name, status: 'ACTIVE', labels: options.labels ?? [], generator_ids },
  })
  return { agent, pak: initial_pak, client: broker.clientOf(initial_pak) }
}

export const unique = (word: string): string => `${word}-${randomBytes(4).toString('hex')}`
