// long: every change of the flow starts a processor
// A flow from its object to rows in the target: the operator and a real processor for each pod, between two tables of a real database.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type FlowRunner, startFlowRunner } from '@brokkr/cli/up/flows/runner.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { annotation } from './names.ts'
import { encode, type Operator, openWorld, type World } from './test-parts/world.ts'

let world: World
let operator: Operator
let runner: FlowRunner
let client: pg.Client
let url: string
const runnerLog: string[] = []
const main = new URL('../../../cli/src/main.ts', import.meta.url).pathname

beforeAll(async () => {
  const database = await emptyDatabase()
  url = database.url
  client = await database.connect()
  await client.query(`create table events (id int primary key, card text, updated_at timestamptz not null default clock_timestamp());
    create table target (id int primary key, card text, updated_at timestamptz);
    alter table target add constraint small check (id < 100)`)
  await client.query(`insert into events (id, card) select n, 'card-' || n from generate_series(1, 5) n`)
  world = await openWorld()
  operator = await world.startOperator({
    PROCESSOR_POD_LABELS: 'practice.brokkr.io/outcome=run',
    PROCESSOR_ALLOW_LOOPBACK: 'true',
    OPERATOR_PROGRESS_FROM_ANNOTATION: 'true',
    OPERATOR_PROGRESS_SECONDS: '2',
  })
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const log = createLog({ name: 'runner', destination: { write: (line) => void runnerLog.push(line) } })
  const program = { command: process.execPath, args: [main], env: {} }
  runner = startFlowRunner({ kube: world.kube, log }, { folder, kubeconfigPath: world.plane.kubeconfigPath, program })
  world.onClose(() => runner.stop())
  await world.kube.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'database', namespace: world.namespace },
    data: encode({ url }),
  })
}, 240_000)
afterAll(async () => {
  await world.close()
  await client.end()
})

const table = (name: string, more: object = {}) => ({
  type: 'postgresql',
  config: { connectionStringSecretRef: { name: 'database', key: 'url' }, table: name, ...more },
})
const spec = {
  source: table('events', { pollInterval: 1, overlapSeconds: 0 }),
  transformations: [{ type: 'mask', config: { fields: ['card'] } }],
  sink: table('target', { upsertMode: true }),
  errors: { ...table('letters', { autoCreateTable: true }), payload: 'full' },
}
const rows = async () => (await client.query<{ id: number }>('select id from target order by id')).rows.map(({ id }) => id)
const podOf = async () =>
  (await world.list('Pod'))
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined && metadata.labels?.['dataflow.dataflow.io/name'] === 'cards')
    .map(({ metadata }) => metadata.name)
const annotate = (annotations: Record<string, string | null>) => world.patch('cards', { metadata: { annotations } })
const details = () => [...runnerLog.slice(-5), ...operator.logged.filter((line) => !line.includes('"debug"')).slice(-5)].join('')
const arrived = (what: string, isSo: () => Promise<boolean>) => waitFor(what, isSo, { onTimeout: details })

test('[D106] a flow runs, and its status shows what its processor did', async () => {
  await world.create('cards', spec)
  await arrived('five rows', async () => (await rows()).length === 5)
  expect((await client.query('select distinct card from target')).rows).toEqual([{ card: '***' }])
  const status = await world.until('cards', (seen) => seen.phase === 'Running' && seen.processedCount === 5)
  expect(status).toMatchObject({ readCount: 5, writtenCount: 5, droppedCount: 0, errorCount: 0, progress: { stale: false } })
  expect(status.position).toContain('5')
  expect(await world.condition('cards', 'Flowing')).toMatchObject({ status: 'True' })
  expect(await world.condition('cards', 'ExactlyOnce')).toMatchObject({ status: 'True', reason: 'PositionInSink' })
  expect(await world.condition('cards', 'Ready')).toMatchObject({ status: 'True' })
})

test('a change of the spec and a rotated secret roll the processor; the checkpoint survives', async () => {
  const [first] = await podOf()
  await world.patch('cards', { spec: { transformations: [{ type: 'mask', config: { fields: ['card'], maskChar: '#' } }] } })
  await arrived('the second pod', async () => (await podOf())[0] !== undefined && (await podOf())[0] !== first)
  await client.query(`insert into events (id, card) values (6, 'six')`)
  await arrived('row 6', async () => (await rows()).includes(6))
  const [second] = await podOf()
  const rotated = {
    type: 'merge' as const,
    body: { data: encode({ url: `${url}${url.includes('?') ? '&' : '?'}application_name=rotated` }) },
  }
  await world.kube.patch({ apiVersion: 'v1', kind: 'Secret', namespace: world.namespace, name: 'database' }, rotated)
  await arrived('the third pod', async () => (await podOf())[0] !== undefined && (await podOf())[0] !== second)
  await client.query(`insert into events (id, card) values (7, 'seven')`)
  await arrived('row 7', async () => (await rows()).includes(7))
  // Nothing was read twice.
  await world.until('cards', (status) => status.phase === 'Running' && status.readCount === 7 && status.processedCount === 7)
})

test('[D118] a paused flow goes on at its position; [D75] a rewind and a reset act once', async () => {
  await annotate({ [annotation.paused]: 'true' })
  await world.until('cards', { phase: 'Stopped', message: 'paused by hand', replicas: 0 })
  await client.query(`insert into events (id, card) values (8, 'eight')`)
  await annotate({ [annotation.paused]: null })
  await arrived('row 8', async () => (await rows()).includes(8))
  await client.query('delete from target')
  await annotate({ [annotation.rewind]: JSON.stringify({ id: 'r1', to: 'earliest' }) })
  await arrived('all rows again', async () => (await rows()).length === 8)
  await world.until('cards', { appliedRewind: 'r1', phase: 'Running' })
  await client.query('delete from target where id > 2')
  // The same request again does nothing; a reset is armed by a new value.
  await annotate({ [annotation.rewind]: null })
  await annotate({ [annotation.rewind]: JSON.stringify({ id: 'r1', to: 'earliest' }) })
  await world.patch('cards', { spec: { checkpointReset: 'again-1' } })
  await arrived('all rows a third time', async () => (await rows()).length === 8)
  const { appliedReset } = await world.until('cards', (status) => status.appliedReset !== undefined && status.phase === 'Running')
  await client.query('delete from target where id = 1')
  await world.patch('cards', { spec: { checkpointReset: null } })
  await world.patch('cards', { spec: { checkpointReset: 'again-1' } })
  await client.query(`insert into events (id, card) values (9, 'nine')`)
  await arrived('row 9', async () => (await rows()).includes(9))
  expect(await rows()).not.toContain(1)
  expect((await world.status('cards')).appliedReset).toBe(appliedReset)
  const object = await world.kube.get(world.ref('cards'))
  expect(object.spec?.['checkpointReset']).toBe('again-1')
})

test('dead letters are counted and replayed by a Job', async () => {
  await client.query(`insert into events (id, card) values (500, 'large')`)
  await world.until('cards', (status) => status.errorCount === 1)
  expect((await client.query('select replayed_at from letters')).rows).toEqual([{ replayed_at: null }])
  await client.query('alter table target drop constraint small')
  await annotate({ [annotation.replay]: JSON.stringify({ id: 'first' }) })
  await arrived('row 500', async () => (await rows()).includes(500))
  await waitFor('the event', async () => (await world.events('cards'))['ReplayFinished'] === 1, {
    onTimeout: async () => JSON.stringify(await world.events('cards')),
  })
  expect((await world.events('cards'))['ReplayStarted']).toBe(1)
})

test('the command line taps masked records of the running flow', async () => {
  const flags = ['--namespace', world.namespace, '--kubeconfig', world.plane.kubeconfigPath, '--count', '1']
  const tapping = promisify(execFile)(process.execPath, [main, 'flows', 'tap', 'cards', ...flags], { env: {} })
  let result: { readonly stdout: string } | undefined
  const ended = tapping.catch((error: Error & { stdout: string }) => error).then((end) => void (result = end))
  // Nothing is sampled before the command reads.
  let id = 1000
  await waitFor('a record', async () => {
    await client.query(`insert into events (id, card) values ($1, 'secret-card')`, [(id += 1)])
    return result !== undefined
  })
  await ended
  expect(result).not.toBeInstanceOf(Error)
  const output = result?.stdout ?? ''
  expect(JSON.parse(output)).toMatchObject({ record: { id: expect.any(Number), card: expect.stringMatching(/^[*#]+$/) } })
  expect(output).not.toContain('secret-card')
})

test('[D106] the connection is in no status, event or log, and deletion ends the processor', async () => {
  const visible = JSON.stringify(
    await Promise.all(['ConfigMap', 'Event', 'DataFlow', 'Deployment', 'Pod', 'Job'].map((kind) => world.list(kind))),
  )
  const forms = [url, Buffer.from(url).toString('base64')]
  expect(forms.filter((form) => visible.includes(form) || operator.logged.join('').includes(form))).toEqual([])
  await world.kube.delete(world.ref('cards'))
  await waitFor('the end', async () => (await world.kube.find(world.ref('cards'))) === undefined)
  await waitFor('the end of the process', () => runner.running().length === 0)
})
