// The writer: submits objects by the broker's own action or by one bare statement, at a fixed rate whatever comes back (open loop) or as fast as it goes,
// and notes for each (stack, rev) when its commit was confirmed. Given a channel, NOTIFY follows the commit, one in flight and a rest
// between them, as a broker does it beside another one. An order a line, a result a line; connections and what they have prepared stay.
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { systemActor } from '@brokkr/broker/audit/rules.ts'
import { notifyRestMs } from '@brokkr/broker/change-feed/reader/listener.ts'
import { submitDeploymentObject } from '@brokkr/broker/deployments/actions/submit-deployment-object.ts'
import { toManifestContext } from '@brokkr/broker/deployments/rules/stored-manifest.ts'
import { createSeal } from '@brokkr/broker/seal.ts'
import { createSubscriptionCache } from '@brokkr/broker/webhooks/subscriptions/subscription-cache.ts'
import { openDatabase } from '@brokkr/postgres'
import pg from 'pg'
import { buildManifest } from '../broker/fill.ts'

export interface WriterOrder {
  readonly databaseUrl: string
  readonly encryptionKey: string
  readonly stackIds: readonly string[]
  /** null: as fast as it goes. */
  readonly perSecond: number | null
  readonly seconds: number
  readonly connections: number
  readonly channel: string | null
  /** As the broker does it, with audit and all, or the least that is a submission. */
  readonly by?: 'action' | 'statement'
}
export interface WriterResult {
  readonly commits: readonly (readonly [string, number, number])[]
  readonly seconds: number
}

const manifest = buildManifest(500)
const statement = `with taken as (
    update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = $2 where id = $1 returning last_sequence)
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
  select $2, $1, last_sequence, $3, $4, md5('a') || md5('b'), 'admin' from taken returning sequence_id`

function open({ databaseUrl, encryptionKey, connections }: WriterOrder) {
  const seal = createSeal([Buffer.from(encryptionKey, 'hex')])
  const pool = new pg.Pool({ connectionString: databaseUrl, max: connections + 1 })
  const database = openDatabase({ url: databaseUrl, schema: 'public', poolSize: connections })
  // As a broker without any webhook keeps them.
  const subscriptionCache = createSubscriptionCache({ isTrusted: () => true })
  return {
    pool,
    action: async (stackId: string): Promise<number> => {
      const input = { stackId, yamlContent: manifest, isDeletionMarker: false, expectedSequenceId: undefined, actor: systemActor }
      return (await submitDeploymentObject({ sql: database, seal, subscriptionCache, wakeFeed: () => undefined }, input)).sequence_id
    },
    statement: async (stackId: string): Promise<number> => {
      const id = randomUUID()
      const values = [stackId, id, seal.seal(toManifestContext(id), manifest), manifest.length]
      const { rows } = await untilNoDeadlock(() => pool.query<{ sequence_id: string }>({ name: 'submit', text: statement, values }))
      return Number(rows[0]!.sequence_id)
    },
    close: () => Promise.all([pool.end(), database.close()]),
  }
}
let opened: ReturnType<typeof open> | undefined

/** One statement locks its two tables in another order while it is planned than while it runs, and may then meet a benchmark that has
 *  triggers switched. */
async function untilNoDeadlock<T>(attempt: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await attempt()
    } catch (error) {
      if ((error as { code?: string }).code !== '40P01') throw error
    }
}

function notifier(pool: pg.Pool, channel: string | null) {
  let notifying: Promise<void> | null = null
  let isOwed = false
  return {
    notify: (): void => {
      if (channel === null) return
      isOwed = true
      notifying ??= (async () => {
        while (isOwed) {
          isOwed = false
          const text = `select set_config('synchronous_commit', 'off', true), pg_notify($1, '')`
          await pool.query({ name: 'notify', text, values: [channel] })
          await new Promise((resolve) => setTimeout(resolve, notifyRestMs))
        }
        notifying = null
      })()
    },
    ended: async () => void (await notifying),
  }
}

async function obey(order: WriterOrder): Promise<WriterResult> {
  opened ??= open(order)
  const submitBy = opened[order.by ?? 'statement']
  const { notify, ended } = notifier(opened.pool, order.channel)
  const commits: [string, number, number][] = []
  let turn = 0
  const submit = async (): Promise<void> => {
    const stackId = order.stackIds[(turn += 1) % order.stackIds.length]!
    commits.push([stackId, await submitBy(stackId), Number(process.hrtime.bigint())])
    notify()
  }
  const startedMs = performance.now()
  const endMs = startedMs + order.seconds * 1000
  if (order.perSecond === null) {
    const lane = async () => {
      while (performance.now() < endMs) await submit()
    }
    await Promise.all(Array.from({ length: order.connections }, lane))
  } else await openLoop(order.perSecond, startedMs, endMs, submit)
  await ended()
  return { commits, seconds: (performance.now() - startedMs) / 1000 }
}

async function openLoop(perSecond: number, startedMs: number, endMs: number, submit: () => Promise<void>): Promise<void> {
  const pending = new Set<Promise<void>>()
  for (let sent = 0; performance.now() < endMs; ) {
    const due = Math.floor(((performance.now() - startedMs) / 1000) * perSecond)
    for (; sent < due; sent += 1) {
      const one = submit().finally(() => pending.delete(one))
      pending.add(one)
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(pending)
}

for await (const line of createInterface(process.stdin)) {
  const result = await obey(JSON.parse(line) as WriterOrder)
  await new Promise((written) => process.stdout.write(`${JSON.stringify(result)}\n`, written))
}
await opened?.close()
