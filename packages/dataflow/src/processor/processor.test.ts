// `brokkr dataflow processor` as a process on real servers: how it starts, what its pages say, how it stops, what an outage costs.
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { proxiedPostgres } from '@brokkr/testing/faults/postgres-proxy.ts'
import { uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { committed, fill, withAdmin } from '../connectors/test-parts/kafka-topics.ts'
import { kafkaSetup, lettersOf } from './test-parts/kafka-setup.ts'
import { startProcessor } from './test-parts/real-flow.ts'

const limits = { limitMs: 180_000 }
const timeoutMs = 600_000
const folder = () => callServers('loan.folder', { kind: 'plain' })
const rows = async (client: pg.Client): Promise<number> =>
  Number((await client.query<{ n: string }>('select count(*) n from target')).rows[0]!.n)

async function target(table = 'create table target (at serial, id int, pad text)') {
  const database = await emptyDatabase()
  const client = await database.connect()
  await client.query(table)
  return { database, client }
}

test(
  'an invalid spec ends the processor with code 2 and all problems',
  async () => {
    const bad = await startProcessor(
      { source: { type: 'kafka', config: {} }, sink: { type: 'rabbit', config: {} } },
      { folder: await folder() },
    )
    expect((await bad.exited).code).toBe(2)
    expect(bad.text()).toContain('spec.source.config.brokers: is required')
    expect(bad.text()).toContain('spec.sink.type')
  },
  timeoutMs,
)

const unversioned = JSON.stringify({ postgresql: { lastReadChangeTime: '2026-01-02T03:04:05Z', lastReadOrderByValue: '77' } })

test(
  'a checkpoint without a version ends the process with the reason, and a reset replaces it',
  async () => {
    const { source, sink } = await kafkaSetup()
    const place = await folder()
    await writeFile(`${place}/checkpoint.json`, JSON.stringify({ version: '1', texts: { 'checkpoint.json': unversioned } }))
    const refused = await startProcessor({ source, sink }, { folder: place })
    expect((await refused.exited).code).toBe(2)
    expect(refused.text()).toContain('checkpoint.json is not a checkpoint of version 1')
    expect(refused.text()).toContain("reset the flow's checkpoint")
    const reset = await startProcessor({ source, sink }, { folder: place, oneShots: { resetId: 'r1' }, id: 'reset' })
    await reset.ready()
    expect(await reset.stop()).toBe(0)
    expect(readFileSync(`${place}/checkpoint.json`, 'utf8')).toContain('\\"resetId\\":\\"r1\\"')
  },
  timeoutMs,
)

test(
  'ready when sinks are connected and the source is read; metrics and progress beside it',
  async () => {
    const { from, source, sink } = await kafkaSetup()
    const processor = await startProcessor({ source, sink, checkpointSaveInterval: '1s' }, { folder: await folder() })
    await processor.ready()
    await fill(from, [{ value: '{"n":1}' }])
    await waitFor('progress', async () => (await processor.progress()).processedCount === 1, limits)
    const [health, alive, metrics, progress] = [
      await processor.page('/healthz'),
      await processor.page('/livez'),
      await processor.page('/metrics'),
      await processor.progress(),
    ]
    expect([health.status, alive.status, metrics.status]).toEqual([200, 200, 200])
    expect(metrics.text).toMatch(/dataflow_messages_received_total\{namespace="test",name="flow",source_type="kafka"\} 1/)
    expect(progress).toMatchObject({ readCount: 1, writtenCount: 1, position: `${from}[0]=0`, isReady: true, flowing: { status: 'True' } })
    expect(await processor.stop()).toBe(0)
  },
  timeoutMs,
)

test(
  '[D72] queued and current records are written and committed before the process ends',
  async () => {
    const { from, group, source } = await kafkaSetup()
    const { database, client } = await target()
    const sink = {
      type: 'postgresql',
      config: { connectionString: database.url, table: 'target', batchSize: 100, batchFlushIntervalSeconds: 3600 },
    }
    const processor = await startProcessor({ source, sink }, { folder: await folder() })
    await processor.ready()
    // A lock keeps the first batch in the air.
    const locker = await database.connect()
    await locker.query('begin; lock table target in access exclusive mode')
    await fill(
      from,
      Array.from({ length: 150 }, (_, id) => ({ value: JSON.stringify({ id, pad: '' }) })),
    )
    const waitingWrites = 'select count(*) n from pg_stat_activity where wait_event_type = $1 and datname = current_database()'
    const isWaiting = async () => Number((await client.query<{ n: string }>(waitingWrites, ['Lock'])).rows[0]!.n) === 1
    await waitFor(
      'a flush in the air and half a batch behind it',
      async () => (await isWaiting()) && (await processor.progress()).openMessages === 150,
      limits,
    )
    const stoppedMs = performance.now()
    const ended = processor.stop()
    await waitFor('the signal to be heard', () => processor.text().includes('"msg":"processor stopping"'), limits)
    await locker.query('commit')
    expect(await ended).toBe(0)
    expect(performance.now() - stoppedMs).toBeLessThan(30_000)
    expect(await rows(client)).toBe(150)
    expect(await committed(group, from)).toEqual({ 0: 150 })
    await Promise.all([client.end(), locker.end()])
  },
  timeoutMs,
)

test(
  '[D69] a sink outage under load stays within the budget and loses no message',
  async () => {
    const { broker, from, group, source } = await kafkaSetup()
    const { database, client } = await target()
    const { url, proxy } = await proxiedPostgres(database.url)
    const budget = size('D69.budgetBytes') ?? 32 * 1024 * 1024
    const read = 256 * 1024
    const pad = 'x'.repeat(1000)
    const count = Math.ceil((3 * budget) / 1256)
    for (let at = 0; at < count; at += 100)
      await fill(
        from,
        Array.from({ length: Math.min(100, count - at) }, (_, one) => ({ value: JSON.stringify({ id: at + one, pad }) })),
      )
    const spec = {
      source: { ...source, config: { ...source.config, fetchMaxBytes: read, maxPartitionFetchBytes: read } },
      sink: { type: 'postgresql', config: { connectionString: url, table: 'target', batchSize: 200, exactlyOnce: 'required' } },
      maxInFlightBytes: budget,
      // So that the budget is the bound that is met, not the number of messages in a queue.
      channelBufferSize: 1_000_000,
    }
    const processor = await startProcessor(spec, { folder: await folder() })
    await waitFor('the first rows', async () => (await rows(client)) > 0, { ...limits, onTimeout: () => processor.logTail(20) })
    proxy.cut()
    const spent = await waitFor(
      'the budget to be spent',
      async () => {
        const { openBytes } = await processor.progress()
        return openBytes >= budget && openBytes
      },
      limits,
    )
    expect(spent).toBeLessThanOrEqual(budget + 1.5 * read)
    const outageEndsMs = performance.now() + size('D69.outageMs')
    let peakBytes = 0
    let peakMib = 0
    const startMib = residentMib(processor.pid)
    while (performance.now() < outageEndsMs) {
      expect((await processor.page('/livez')).status).toBe(200)
      peakBytes = Math.max(peakBytes, (await processor.progress()).openBytes)
      peakMib = Math.max(peakMib, residentMib(processor.pid))
      const groups = await withAdmin(broker, (admin) => admin.describeGroups({ groups: [group] }))
      expect(groups.get(group)?.members.size).toBe(1)
    }
    expect(peakBytes).toBeLessThanOrEqual(budget + 1.5 * read)
    expect(peakMib - startMib).toBeLessThan(64)
    await waitFor('the condition SinkUnavailable', async () => (await processor.progress()).flowing.reason === 'SinkUnavailable', limits)
    expect((await processor.progress()).flowing.status).toBe('False')
    proxy.heal()
    await waitFor('everything', async () => (await committed(group, from))[0] === count, {
      ...limits,
      onTimeout: () => processor.logTail(20),
    })
    const found = await client.query<{ all: string; distinct: string }>(
      'select count(*) as all, count(distinct id) as distinct from target',
    )
    expect(found.rows[0]).toEqual({ all: String(count), distinct: String(count) })
    expect(await processor.stop()).toBe(0)
    await proxy.close()
    await client.end()
  },
  timeoutMs + size('D69.outageMs'),
)

const residentMib = (pid: number): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

test(
  '[D83] a password and the payload of a rejected row appear in no output',
  async () => {
    const { from, dead, source, errors } = await kafkaSetup()
    const { database, client } = await target('create table target (id int, pad text)')
    const password = 'Tr0ub4dor&3-hunter2'
    const withPassword = new URL(database.url.replace('@/', '@localhost/'))
    const host = withPassword.searchParams.get('host') ?? ''
    const wrong = `postgres://wrong-user:${encodeURIComponent(password)}@/${database.name}?host=${encodeURIComponent(host)}&port=${withPassword.searchParams.get('port') ?? ''}`
    const refused = await startProcessor(
      { source, errors, sink: { type: 'postgresql', config: { connectionString: wrong, table: 'target' } } },
      { folder: await folder(), env: { LOG_LEVEL: 'debug', PROCESSOR_BLOCKED_AFTER_SECONDS: '1' } },
    )
    const blocked = await waitFor('blocked', async () => (await refused.progress()).blocked, {
      ...limits,
      onTimeout: () => refused.logTail(20),
    })
    expect(blocked).toMatchObject({ stage: 'sink', errorType: 'auth_error' })
    const seen = refused.text() + JSON.stringify(await refused.progress()) + (await refused.page('/metrics')).text
    expect(seen).not.toMatch(/Tr0ub4dor|hunter2/)
    expect(await refused.stop()).toBe(0)

    await fill(from, [{ value: '{"id":"word-nobody-may-read","pad":"x"}' }, { value: '{"id":2,"pad":"y"}' }])
    const place = await folder()
    const failing = await startProcessor(
      { source, errors, sink: { type: 'postgresql', config: { connectionString: database.url, table: 'target' } } },
      { folder: place, name: uniqueName('flow') },
    )
    await waitFor('the letter', async () => (await lettersOf(dead)).length === 1, { ...limits, onTimeout: () => failing.logTail(20) })
    const [letter] = await lettersOf(dead)
    expect(letter!.original_message).toEqual({ id: 'word-nobody-may-read', pad: 'x' })
    const shown =
      JSON.stringify(letter!.error) + failing.text() + JSON.stringify(await failing.progress()) + (await failing.page('/metrics')).text
    expect(shown).not.toContain('word-nobody-may-read')
    expect(await failing.stop()).toBe(0)
    // The texts of the ConfigMap, word for word.
    const kept = readFileSync(`${place}/checkpoint.json`, 'utf8')
    expect(kept).toContain('processedCount')
    expect(kept).not.toContain('word-nobody-may-read')
    expect(kept).not.toContain(database.url)
    await client.end()
  },
  timeoutMs,
)
