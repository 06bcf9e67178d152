// Taking a flow over, setting it back and looking at it without a trace, on real servers.

import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { validate } from '@brokkr/contract/dataflow/spec/validate.ts'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase, privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { previewFlow } from '../commands.ts'
import { openSink } from '../connectors/open-connectors.ts'
import { sinkContext } from '../connectors/test-parts/contexts.ts'
import { committed, fill, withAdmin } from '../connectors/test-parts/kafka-topics.ts'
import { FlowCheckpoint } from './checkpoint/checkpoint.ts'
import type { CheckpointStore } from './checkpoint/checkpoint-store.ts'
import { createConfigMapStore } from './checkpoint/config-map-store.ts'
import { createFileStore } from './checkpoint/file-store.ts'
import { kafkaSetup, valuesOf } from './test-parts/kafka-setup.ts'
import { type RealFlow, startFlow } from './test-parts/real-flow.ts'

const limits = { limitMs: 120_000 }
const timeoutMs = 300_000
const { signal } = new AbortController()

async function configMapStore(): Promise<CheckpointStore> {
  const plane = await cluster({ controllers: false })
  const namespace = await plane.namespace('steering')
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  const place = { namespace, name: 'dataflow-flow-checkpoint' }
  await kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: place })
  return createConfigMapStore(kube, place)
}
const checkpointOf = async (store: CheckpointStore, pod: string, sourceType: string): Promise<FlowCheckpoint> => {
  const checkpoint = new FlowCheckpoint(store, { pod, uid: uniqueName(pod), sourceType, isShared: false })
  await checkpoint.takeOver(signal)
  return checkpoint
}

/** Whoever is not fenced runs on for ever: that is found out in a minute. */
async function exitCodeOf(flow: RealFlow): Promise<number> {
  let code: number | undefined
  void flow.done.then(({ exitCode }) => (code = exitCode))
  await waitFor('the flow to end', () => code !== undefined, { limitMs: 60_000 })
  return code!
}

async function pollingSetup() {
  const database = await emptyDatabase()
  const client = await database.connect()
  await client.query(`create table events (id int primary key, created_at timestamptz default now(), updated_at timestamptz default now());
    create table target (at serial, id int, created_at timestamptz, updated_at timestamptz)`)
  const connector = (table: string, more: object = {}) => ({
    type: 'postgresql',
    config: { connectionString: database.url, table, ...more },
  })
  const spec = {
    source: connector('events', { pollInterval: 1 }),
    sink: connector('target', { onConflict: 'error' }),
    checkpointSaveInterval: '1s',
  }
  const ids = async () => (await client.query<{ id: number }>('select id from target order by at')).rows.map(({ id }) => id)
  return { database, client, spec, ids, connector }
}

test(
  '[D74] a processor without the checkpoint is fenced on save and rolled back on write',
  async () => {
    const { client, spec, ids } = await pollingSetup()
    const store = await configMapStore()
    const first = startFlow(spec, { checkpoint: await checkpointOf(store, 'first', 'postgresql') })
    await client.query('insert into events (id) values (1)')
    await waitFor('the first row', async () => (await ids()).length === 1, limits)
    await checkpointOf(store, 'second', 'postgresql')
    const taken = (await store.load(signal)).texts['checkpoint.json']
    await client.query('insert into events (id) values (2)')
    expect(await exitCodeOf(first)).toBe(3)
    expect((await store.load(signal)).texts['checkpoint.json']).toBe(taken)

    const other = await pollingSetup()
    const third = startFlow(
      { ...other.spec, checkpointSaveInterval: '1h' },
      { checkpoint: await checkpointOf(await configMapStore(), 'third', 'postgresql') },
    )
    await other.client.query('insert into events (id) values (1)')
    await waitFor('the first row', async () => (await other.ids()).length === 1, limits)
    // The sink's side of a second processor: it takes the positions over before it writes anything.
    const kept = await other.client.query<{ source: string }>('select source from brokkr_positions')
    const origin = kept.rows[0]!.source.replace(/\/[^/]*$/, '')
    const { flow } = validate({ kind: 'DataFlow', metadata: { name: 'flow', namespace: 'test' }, spec: other.spec }, re2)
    const sink = openSink(flow!.sink, sinkContext({ signal, source: { origin, compare: () => 0 }, epoch: 2 }))
    await sink.connect()
    expect((await sink.highWater()).size).toBe(1)
    await other.client.query('insert into events (id) values (2)')
    expect(await exitCodeOf(third)).toBe(3)
    expect(await other.ids()).toEqual([1])
    await sink.close()
    await Promise.all([client.end(), other.client.end()])
  },
  timeoutMs,
)

test(
  '[D76] a flow rewinds once per id; a position before the slot is rejected',
  async () => {
    const { from, group, source } = await kafkaSetup()
    const { client, connector, ids, spec: polling } = await pollingSetup()
    const kafkaSpec = { source, sink: connector('target', { onConflict: 'error', unknownFields: 'ignore' }) }
    await fill(from, [{ value: '{"id":1}' }, { value: '{"id":2}' }])
    await startFlow(kafkaSpec, { isBounded: true, checkpoint: await checkpointOf(await configMapStore(), 'a', 'kafka') }).done
    const time = new Date(Date.now() + 1).toISOString()
    await waitFor('the next millisecond', () => Date.now() > Date.parse(time))
    await fill(from, [{ value: '{"id":3}' }, { value: '{"id":4}' }])
    const store = await configMapStore()
    const order = { oneShots: { rewind: { id: 'r1', to: { time } } }, isBounded: true }
    await startFlow(kafkaSpec, { isBounded: true, checkpoint: await checkpointOf(store, 'b', 'kafka') }).done
    expect(await ids()).toEqual([1, 2, 3, 4])
    await startFlow(kafkaSpec, { ...order, checkpoint: await checkpointOf(store, 'c', 'kafka') }).done
    expect(await ids()).toEqual([1, 2, 3, 4, 3, 4])
    await startFlow(kafkaSpec, { ...order, checkpoint: await checkpointOf(store, 'd', 'kafka') }).done
    expect(await ids()).toEqual([1, 2, 3, 4, 3, 4])
    expect(await committed(group, from)).toEqual({ 0: 4 })

    await client.query(
      `truncate target; insert into events values (1, '2026-01-01', '2026-01-01'), (2, '2026-01-02', '2026-01-02'), (3, '2026-01-03', '2026-01-03')`,
    )
    const pollingStore = await configMapStore()
    await startFlow(polling, { isBounded: true, name: 'polling', checkpoint: await checkpointOf(pollingStore, 'a', 'postgresql') }).done
    const back = { oneShots: { rewind: { id: 'r2', to: { changeTime: '2026-01-01T12:00:00Z' } } }, isBounded: true, name: 'polling' }
    await startFlow(polling, { ...back, checkpoint: await checkpointOf(pollingStore, 'b', 'postgresql') }).done
    await startFlow(polling, { ...back, checkpoint: await checkpointOf(pollingStore, 'c', 'postgresql') }).done
    expect(await ids()).toEqual([1, 2, 3, 2, 3])
    await client.end()

    const server = await privatePostgres()
    const database = await server.database()
    const owner = await database.connect()
    await owner.query('create table captured (id int primary key)')
    const { to, sink } = await kafkaSetup()
    const cdc = {
      source: { type: 'postgresql-cdc', config: { connectionString: database.url, tables: ['public.captured'], slotName: 'steering' } },
      sink,
    }
    const running = startFlow(cdc, { name: 'cdc' })
    await owner.query('insert into captured values (1)')
    await waitFor('the change', async () => (await valuesOf(to)).length === 1, limits)
    await running.stop()
    const confirmed = await owner.query<{ lsn: string }>(
      `select confirmed_flush_lsn::text lsn from pg_replication_slots where slot_name = 'steering'`,
    )
    const refused = startFlow(cdc, { name: 'cdc', oneShots: { rewind: { id: 'r3', to: { lsn: '0/1' } } } })
    const blocked = await waitFor('the refusal', () => refused.progress().blocked, limits)
    expect(blocked.message).toMatch(/the slot begins at [0-9A-F]+\/[0-9A-F]+/)
    await refused.stop()
    const { rows } = await owner.query<{ lsn: string }>(
      `select confirmed_flush_lsn::text lsn from pg_replication_slots where slot_name = 'steering'`,
    )
    expect(rows[0]!.lsn).toBe(confirmed.rows[0]!.lsn)
    await owner.end()
  },
  timeoutMs,
)

test(
  'a reset reads from the start once per id, for every source and with sink positions',
  async () => {
    const folder = await callServers('loan.folder', { kind: 'plain' })
    const { client, spec: polling, ids, connector } = await pollingSetup()
    await client.query(`insert into events (id) values (1), (2)`)
    const { from, source } = await kafkaSetup()
    await fill(from, [{ value: '{"id":1}' }, { value: '{"id":2}' }])
    const flows = [
      { name: 'polling', type: 'postgresql', spec: polling },
      { name: 'kafka', type: 'kafka', spec: { source, sink: connector('target', { onConflict: 'error' }) } },
    ]
    for (const { name, type, spec } of flows) {
      await client.query('truncate target')
      const run = async (resetId?: string) => {
        const checkpoint = await checkpointOf(createFileStore(`${folder}/${name}.json`), name, type)
        const oneShots = resetId === undefined ? {} : { resetId }
        expect((await startFlow(spec, { name, isBounded: true, checkpoint, oneShots }).done).exitCode).toBe(0)
        return ids()
      }
      expect([name, await run()]).toEqual([name, [1, 2]])
      expect([name, await run()]).toEqual([name, [1, 2]])
      expect([name, await run('g2')]).toEqual([name, [1, 2, 1, 2]])
      expect([name, await run('g2')]).toEqual([name, [1, 2, 1, 2]])
      expect([name, await run('g3')]).toEqual([name, [1, 2, 1, 2, 1, 2]])
    }
    await client.end()
  },
  timeoutMs,
)

test(
  "[D80] a preview of live servers has production's outcomes and no side effects",
  async () => {
    const { broker, from, source, dead } = await kafkaSetup()
    const { client, connector, ids } = await pollingSetup()
    await client.query('alter table target add constraint small check (id < 100)')
    await fill(from, [{ value: '{"id":1}' }, { value: '{"id":500}' }, { value: '{"id":-1}' }, { value: '{"id":"x"}' }])
    const before = await client.query(`select count(*) n from pg_class where relnamespace = 'public'::regnamespace`)
    const object = {
      apiVersion: 'dataflow.dataflow.io/v1',
      kind: 'DataFlow',
      metadata: { namespace: 'test', name: 'preview' },
      spec: {
        source: { ...source, config: { ...source.config, consumerGroup: uniqueName('preview') } },
        sink: connector('target', { onConflict: 'error' }),
        errors: { type: 'kafka', config: { brokers: [broker], topic: dead } },
        transformations: [
          { type: 'cast', config: { spec: { id: 'int64' } } },
          { type: 'filter', config: { condition: 'id > 0' } },
        ],
      },
    }
    const look = {
      fromSource: 20,
      checkSink: true,
      secret: () => Promise.reject(new Error('no secrets here')),
      allowLoopback: true,
      signal,
    }
    const { previews, problems } = await previewFlow(object, look)
    expect(problems).toEqual([])
    expect(previews.map(({ input, ending }) => [input, ending])).toEqual([
      [{ id: 1 }, 'written'],
      [{ id: 500 }, 'dead-lettered'],
      [{ id: -1 }, 'dropped'],
      [{ id: 'x' }, 'dead-lettered'],
    ])
    expect(previews[3]!.error).toContain('cast: id')
    expect(await ids()).toEqual([])
    const after = await client.query(`select count(*) n from pg_class where relnamespace = 'public'::regnamespace`)
    expect(after.rows).toEqual(before.rows)
    const { consumerGroup } = object.spec.source.config
    expect([...(await withAdmin(broker, (admin) => admin.listGroups())).keys()]).not.toContain(consumerGroup)
    expect(await valuesOf(dead)).toEqual([])

    // Production says the same.
    const flow = startFlow(object.spec, { isBounded: true, name: 'preview' })
    await flow.done
    expect(await ids()).toEqual([1])
    expect(flow.progress()).toMatchObject({ processedCount: 4, writtenCount: 1, droppedCount: 1, errorCount: 2 })
    await client.end()
  },
  timeoutMs,
)
