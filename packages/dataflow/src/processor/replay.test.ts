// `brokkr dataflow replay` as a process: letters of a topic and of a table once more, on real servers.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DeadLetter } from '@brokkr/contract/dataflow/envelope.ts'
import { uniqueName } from '@brokkr/testing/kafka.ts'
import { emptyDatabase } from '@brokkr/testing/postgres.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { askServers } from '@brokkr/testing/servers-client.ts'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { drain, fill } from './connectors/test-parts/kafka-topics.ts'
import { kafkaSetup } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

const timeoutMs = 300_000

/** Counts as the program tells them. */
async function replay(spec: object, name: string, ...args: string[]): Promise<object> {
  const folder = await askServers('loan.folder', { kind: 'plain' })
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
  const { written, failed, dropped } = program.lines().find(({ msg }) => msg === 'letters were replayed')!
  return { written, failed, dropped }
}

interface Case {
  readonly name: string
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

test(
  '[D79] letters of a sink go straight back to it, letters of a transform run the chain, and a second replay writes nothing twice',
  async () => {
    const { kafka, client, table, transformations, ids } = await setup()
    const letterRows = async () =>
      (
        await client.query<{ error: unknown; original_message: unknown }>(
          'select error, original_message from letters order by created_at, id',
        )
      ).rows
    const cases: Case[] = [
      {
        name: 'topic',
        errors: kafka.errors,
        letters: async () => (await drain(kafka.dead)).map(({ value }) => DeadLetter.parse(JSON.parse(value ?? ''))),
      },
      {
        name: 'table',
        errors: table('letters', { autoCreateTable: true }),
        letters: async () => (await letterRows()).map((row) => DeadLetter.parse(row)),
      },
    ]
    await fill(kafka.from, [
      { value: '{"id":1,"n":"1"}' },
      { value: '{"id":500,"n":"2"}' },
      { value: '{"id":2,"n":"x"}' },
      { value: '{"id":900,"n":"3"}' },
      { value: '{"id":700,"n":"4","kind":"vip"}' },
    ])
    for (const { name, errors, letters } of cases) {
      await client.query(`truncate target, vips`)
      for (const of of ['target', 'vips'])
        await client.query(`alter table ${of} drop constraint small, add constraint small check (id < 100)`)
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
    }
    await client.end()
  },
  timeoutMs,
)

test(
  'letters of other flows are left alone, so are letters without a payload; a bound ends a replay and the rest is for the next',
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
