// `brokkr dataflow replay` as a process: letters of a topic and of a table once more, on real servers.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DeadLetter } from '@brokkr/contract/dataflow/dead-letter.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { clickhouseDatabase } from '@brokkr/testing/servers/clickhouse.ts'
import { uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { trinoSchema } from '@brokkr/testing/servers/trino.ts'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { drain, fill } from '../../connectors/test-parts/kafka-topics.ts'
import { kafkaSetup } from '../test-parts/kafka-setup.ts'
import { startFlow } from '../test-parts/real-flow.ts'

const timeoutMs = 300_000

/** Counts as the program tells them. */
async function replay(spec: object, name: string, ...args: string[]): Promise<object> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const specPath = join(folder, 'replay.json')
  await writeFile(specPath, JSON.stringify({ spec }), { mode: 0o600 })
  const program = await startProgram({
    name: 'replay',
    main: 'packages/cli/src/main.ts',
    folder,
    args: ['dataflow', 'replay', `--spec-path=${specPath}`, '--namespace=test', `--name=${name}`, ...args],
    env: { PATH: process.env['PATH'] ?? '', PROCESSOR_ALLOW_LOOPBACK: 'true' },
  })
  const { code } = await program.exited
  if (code !== 0) throw new Error(`replay ended with ${code}:\n${program.logTail(30)}`)
  const { written, failed, dropped } = program.lines().find(({ msg }) => msg === 'replay ended')!
  return { written, failed, dropped }
}

interface Case {
  readonly errors: { readonly type: string; readonly config: object }
  readonly letters: () => Promise<DeadLetter[]>
}

async function setup() {
  const kafka = await kafkaSetup()
  const database = await emptyDatabase()
  const client = await database.connect()
  await client.query(`create table target (at serial, id int, n text, stamp text, constraint small check (id < 100));
    create table vips (at serial, id int, n text, stamp text, constraint small check (id < 100))`)
  const table = (name: string, more: object = {}) => ({
    type: 'postgresql',
    config: { connectionString: database.url, table: name, unknownFields: 'ignore', ...more },
  })
  // Its own kind of n, so that letters of the transform fit once the flow is mended; the time tells whether the chain ran again.
  const transformations = (n: string) => [
    { type: 'cast', config: { spec: { n } } },
    { type: 'timestamp', config: { fieldName: 'stamp', format: 'RFC3339Nano' } },
    { type: 'router', config: { routes: [{ name: 'vip', condition: `kind == 'vip'`, sink: table('vips') }] } },
  ]
  const ids = async (name: string) =>
    (await client.query<{ id: number }>(`select id from ${name} order by id, at`)).rows.map(({ id }) => id)
  return { kafka, client, table, transformations, ids }
}

const stampOf = async (client: pg.Client, id: number): Promise<string> =>
  (await client.query<{ stamp: string }>('select stamp from target where id = $1', [id])).rows[0]!.stamp

const stores = ['topic', 'table', 'clickhouse', 'trino'] as const

/** Where dead letters are stored, and how a reader finds the latest state of each. */
async function openStore(name: (typeof stores)[number], { kafka, client, table }: Awaited<ReturnType<typeof setup>>): Promise<Case> {
  if (name === 'topic')
    return {
      errors: kafka.errors,
      letters: async () => (await drain(kafka.dead)).map(({ value }) => DeadLetter.parse(JSON.parse(value ?? ''))),
    }
  if (name === 'table') {
    const text = 'select error, original_message from letters order by created_at, id'
    const letters = async () => (await client.query(text)).rows.map((row) => DeadLetter.parse(row))
    return { errors: table('letters', { autoCreateTable: true }), letters }
  }
  if (name === 'trino') return trinoStore()
  const clickhouse = await clickhouseDatabase()
  const sql = 'select error, original_message as original from letters final order by created_at, id'
  const toLetter = (row: { error: string; original: string }) =>
    DeadLetter.parse({ error: JSON.parse(row.error), original_message: JSON.parse(row.original) })
  return {
    errors: { type: 'clickhouse', config: { connectionString: clickhouse.url, table: 'letters', autoCreateTable: true } },
    letters: async () => (await clickhouse.rows<{ error: string; original: string }>(sql)).map(toLetter),
  }
}

async function trinoStore(): Promise<Case> {
  const trino = await trinoSchema()
  const { url, catalog, schema } = trino
  const sql = `select error, original_message from letters where row(id, json_extract_scalar(error, '$.attempts')) in (select id, max(json_extract_scalar(error, '$.attempts')) from letters group by id) and replayed_at is null order by created_at, id`
  const letters = async () =>
    (await trino.run(sql)).map(([error, original]) =>
      DeadLetter.parse({ error: JSON.parse(error as string), original_message: JSON.parse(original as string) }),
    )
  return { errors: { type: 'trino', config: { serverURL: url, catalog, schema, table: 'letters', autoCreateTable: true } }, letters }
}

test.each(stores)(
  '[D79] a replay sends dead letters to their sink or through the chain, once (%s)',
  async (name) => {
    const parts = await setup()
    const { kafka, client, table, transformations, ids } = parts
    const { errors, letters } = await openStore(name, parts)
    await fill(kafka.from, [
      { value: '{"id":1,"n":"1"}' },
      { value: '{"id":500,"n":"2"}' },
      { value: '{"id":2,"n":"x"}' },
      { value: '{"id":900,"n":"3"}' },
      { value: '{"id":700,"n":"4","kind":"vip"}' },
    ])
    const source = { ...kafka.source, config: { ...kafka.source.config, consumerGroup: uniqueName(name) } }
    const spec = { source, sink: table('target'), errors }
    const flow = startFlow({ ...spec, transformations: transformations('int64') }, { name, isBounded: true })
    expect((await flow.done).exitCode).toBe(0)
    expect([name, await ids('target'), await ids('vips')]).toEqual([name, [1], []])
    const first = await letters()
    const of = (id: number, all = first) => all.findLast(({ original_message: original }) => original['id'] === id)!
    expect(first.map(({ error }) => error.stage).toSorted()).toEqual(['sink', 'sink', 'sink', 'transform'])
    expect([of(2).error.stage, of(700).error.route]).toEqual(['transform', 'vip'])

    // The flow is mended and the constraints are relaxed, but not for all.
    await client.query(`alter table target drop constraint small, add constraint small check (id < 800)`)
    await client.query(`alter table vips drop constraint small, add constraint small check (id < 800)`)
    const mended = { ...spec, transformations: transformations('string') }
    const beforeMs = Date.now()
    expect([name, await replay(mended, name)]).toEqual([name, { written: 3, failed: 1, dropped: 0 }])
    expect([name, await ids('target'), await ids('vips')]).toEqual([name, [1, 2, 500], [700]])
    expect(await stampOf(client, 500)).toBe(of(500).original_message['stamp'])
    expect(Date.parse(await stampOf(client, 2))).toBeGreaterThanOrEqual(beforeMs)
    const again = of(900, await letters()).error
    expect(again).toMatchObject({ id: of(900).error.id, attempts: of(900).error.attempts + 1, flow: `test/${name}`, stage: 'sink' })
    expect(again.position).toBe(of(900).error.position)
    expect(again.first_failed_at).toBe(of(900).error.first_failed_at)

    expect([name, await replay(mended, name)]).toEqual([name, { written: 0, failed: 1, dropped: 0 }])
    expect([name, await ids('target'), await ids('vips')]).toEqual([name, [1, 2, 500], [700]])
    await client.query('alter table target drop constraint small, add constraint small check (id < 1000)')
    expect([name, await replay(mended, name)]).toEqual([name, { written: 1, failed: 0, dropped: 0 }])
    expect([name, await replay(mended, name)]).toEqual([name, { written: 0, failed: 0, dropped: 0 }])
    expect([name, await ids('target'), await ids('vips')]).toEqual([name, [1, 2, 500, 900], [700]])
    await client.end()
  },
  timeoutMs,
)

test(
  'a replay ignores foreign and empty dead letters and stops at its limit',
  async () => {
    const { kafka, client, table, transformations, ids } = await setup()
    await fill(kafka.from, [{ value: '{"id":500,"n":"1"}' }, { value: '{"id":501,"n":"2"}' }, { value: '{"id":502,"n":"3"}' }])
    const spec = { source: kafka.source, sink: table('target'), errors: kafka.errors, transformations: transformations('int64') }
    expect((await startFlow(spec, { name: 'mine', isBounded: true }).done).exitCode).toBe(0)
    const [letter] = (await drain(kafka.dead)).map(({ value }) => DeadLetter.parse(JSON.parse(value ?? '')))
    await fill(kafka.dead, [
      { value: 'no letter at all' },
      { value: JSON.stringify({ ...letter, error: { ...letter!.error, flow: 'test/other' } }) },
      { value: JSON.stringify({ ...letter, original_message: { omitted: true } }) },
    ])
    await client.query('alter table target drop constraint small')
    expect(await replay(spec, 'mine', '--max=2')).toEqual({ written: 2, failed: 0, dropped: 0 })
    expect(await ids('target')).toEqual([500, 501])
    expect(await replay(spec, 'mine', `--to=${letter!.error.timestamp.slice(0, 4)}-01-01T00:00:00Z`)).toEqual({
      written: 0,
      failed: 0,
      dropped: 0,
    })
    expect(await replay(spec, 'mine')).toEqual({ written: 1, failed: 0, dropped: 3 })
    expect(await ids('target')).toEqual([500, 501, 502])
    await client.end()
  },
  timeoutMs,
)

test(
  'a replay from an errors sink without replay ends with an error that names the type',
  async () => {
    const { kafka, client, table } = await setup()
    const errors = { type: 'iceberg', config: { catalogURI: 'http://127.0.0.1:1', namespace: 'n', table: 'letters' } }
    const spec = { source: kafka.source, sink: table('target'), errors }
    await expect(replay(spec, 'mine')).rejects.toThrow('sink type iceberg is not')
    await client.end()
  },
  timeoutMs,
)
