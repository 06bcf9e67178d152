// brokkr support-bundle: one compressed file with what is needed to find a fault. Secrets are masked, and the file lists what was
// masked and what could not be read.
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Client } from '@brokkr/client'
import type { Cli } from '../../cli.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { version } from '../../version.ts'
import { examine } from './doctor.ts'
import { maskSecrets } from './mask-secrets.ts'

const itemsMax = 2000
const bytesMax = 50 * 1024 * 1024

export async function supportBundle(cli: Cli, _args: readonly string[], options: { out?: string }): Promise<void> {
  const path = options.out ?? `brokkr-support-${new Date().toISOString().replace(/[:.]/g, '-')}.json.gz`
  const client = await cli.client()
  const omitted: string[] = []
  const parts = await collect(cli, client, omitted)
  const { value, masked } = maskSecrets(parts)
  const text = JSON.stringify({ format: 1, at: new Date().toISOString(), version, omitted, masked, ...(value as object) }, null, 2)
  const bytes = await promisify(gzip)(text)
  if (bytes.length > bytesMax)
    throw new CliError(`the bundle has more than ${bytesMax} bytes`, { next: 'brokkr get and brokkr audit export give parts of it' })
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const file = await open(path, flags, 0o600).catch((cause: unknown) => {
    throw new CliError('the bundle cannot be written', {
      where: path,
      next: 'name a new file: --out FILE',
      exitCode: exitCodes.usage,
      cause,
    })
  })
  try {
    await file.writeFile(bytes)
  } finally {
    await file.close()
  }
  print(`${path}: ${Math.ceil(bytes.length / 1024)} KiB, ${masked.length} values masked, ${omitted.length} parts omitted`)
  for (const line of omitted) print(`  omitted  ${line}`)
}

async function collect(cli: Cli, client: Client, omitted: string[]): Promise<Record<string, unknown>> {
  const readers: Record<string, () => Promise<unknown>> = {
    doctor: () => examine(cli),
    overview: () => client.getOverview({}),
    config: () => client.getConfig({}),
    tasks: () => client.listTasks({}),
    fleet: () => readAll(client.items('listFleet', {}), 'fleet', omitted),
    agents: () => readAll(client.items('listAgents', {}), 'agents', omitted),
    generators: () => readAll(client.items('listGenerators', {}), 'generators', omitted),
    stacks: () => readAll(client.items('listStacks', { query: { include: 'status' } }), 'stacks', omitted),
    webhooks: () => readAll(client.items('listWebhooks', {}), 'webhooks', omitted),
    work_orders: () => readAll(withoutContent(client.items('listWorkOrders', {})), 'work_orders', omitted),
    events: () =>
      readAll(client.items('listAgentEvents', { query: { since: new Date(Date.now() - 3_600_000).toISOString() } }), 'events', omitted),
    audit: async () => (await client.listAuditLogs({ query: { limit: 1000 } })).logs,
  }
  const parts: Record<string, unknown> = {}
  for (const [name, read] of Object.entries(readers))
    parts[name] = await read().catch((error: unknown) => {
      omitted.push(`${name}: ${error instanceof Error ? error.message : String(error)}`)
      return null
    })
  return parts
}

async function readAll<T>(items: AsyncIterable<T>, name: string, omitted: string[]): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) {
    if (all.length >= itemsMax) {
      omitted.push(`${name}: only the first ${itemsMax}`)
      break
    }
    all.push(item)
  }
  return all
}

/** Manifests can contain secrets of applications. */
async function* withoutContent<T extends { yaml_content: string }>(items: AsyncIterable<T>): AsyncGenerator<Omit<T, 'yaml_content'>> {
  for await (const { yaml_content: _content, ...rest } of items) yield rest
}
