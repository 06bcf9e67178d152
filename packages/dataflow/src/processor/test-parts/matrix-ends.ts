// One source and one sink of every type on the shared servers, each with the same hundred rows, for a test that joins them all.
import { type ClickhouseDatabase, clickhouseDatabase } from '@brokkr/testing/servers/clickhouse.ts'
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { nessieNamespace } from '@brokkr/testing/servers/nessie.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { type TrinoSchema, trinoOnNessie, trinoSchema } from '@brokkr/testing/servers/trino.ts'
import type pg from 'pg'
import { drain, fill, makeTopic } from '../../connectors/test-parts/kafka-topics.ts'
import { lakeConfig } from '../../connectors/test-parts/lake.ts'
import type { Connector } from './kafka-setup.ts'

export const rowCount = 100
/** As a sink received it. */
export interface MatrixRow {
  readonly id: number
  readonly name: string
  readonly big: string
}

export interface MatrixEnds {
  readonly sources: Readonly<Record<string, () => Promise<Connector>>>
  readonly sinks: Readonly<Record<string, () => Promise<MatrixSink>>>
  close(): Promise<void>
}
export interface MatrixSink {
  readonly sink: Connector
  rows(): Promise<MatrixRow[]>
}

/** More digits than a double has. */
const bigOf = (id: number): string => `90071992547409930${String(id).padStart(2, '0')}`
export const expectedRows: MatrixRow[] = Array.from({ length: rowCount }, (_, id) => ({ id, name: `näme ${id}`, big: bigOf(id) }))

export async function openMatrixEnds(): Promise<MatrixEnds> {
  const [database, clickhouse, { plaintext }] = [await emptyDatabase(), await clickhouseDatabase(), await kafka()]
  const [trino, namespace] = [await trinoSchema(), await nessieNamespace()]
  const lake = await trinoOnNessie(namespace)
  const client = await database.connect()
  const topic = await makeTopic({ partitions: 3 })
  await fill(
    topic,
    expectedRows.map(({ id, name, big }) => ({ key: String(id), value: `{"id":${id},"name":"${name}","big":${big}}` })),
  )
  const values = expectedRows.map(({ id, name, big }) => `(${id}, '${name}', ${big})`).join(', ')
  await client.query(
    `create table rows (id int primary key, name text, big bigint, created_at timestamptz not null default now(), updated_at timestamptz not null default now())`,
  )
  await client.query(`insert into rows (id, name, big) values ${values}`)
  await clickhouse.run(
    `create table rows (id Int64, name String, big Int64, created_at DateTime64(6) default now64(6)) engine = MergeTree order by id`,
  )
  await clickhouse.run(`insert into rows (id, name, big) values ${values}`)
  const place = { serverURL: trino.url, catalog: trino.catalog, schema: trino.schema }
  await trino.run('create table rows (id bigint, name varchar, big bigint, updated_at timestamp(6) with time zone)')
  await trino.run(
    `insert into rows values ${expectedRows.map(({ id, name, big }) => `(${id}, '${name}', ${big}, current_timestamp)`).join(', ')}`,
  )
  await lake.run('create table rows (id bigint, name varchar, big bigint)')
  await lake.run(`insert into rows values ${values}`)
  const kafkaPart = (name: string): Connector => ({ type: 'kafka', config: { brokers: [plaintext], topic: name } })
  return {
    sources: {
      kafka: async () => ({ type: 'kafka', config: { ...kafkaPart(topic).config, consumerGroup: uniqueName('matrix') } }),
      postgresql: async () => ({ type: 'postgresql', config: { connectionString: database.url, table: 'rows' } }),
      'postgresql-cdc': async () => {
        const name = uniqueName('matrix').replaceAll('-', '_')
        const config = { connectionString: database.url, tables: ['public.rows'], slotName: name, publicationName: name }
        return { type: 'postgresql-cdc', config }
      },
      clickhouse: async () => ({ type: 'clickhouse', config: { connectionString: clickhouse.url, table: 'rows' } }),
      trino: async () => ({ type: 'trino', config: { ...place, table: 'rows' } }),
      nessie: async () => ({ type: 'nessie', config: lakeConfig(namespace, { table: 'rows' }) }),
    },
    sinks: {
      kafka: () => kafkaSink(kafkaPart),
      postgresql: () => postgresSink(database, client),
      clickhouse: () => clickhouseSink(clickhouse),
      trino: () => tableSink(trino, 'trino', place),
      nessie: () => tableSink(lake, 'nessie', lakeConfig(namespace, {})),
    },
    close: () => client.end(),
  }
}

async function kafkaSink(part: (topic: string) => Connector): Promise<MatrixSink> {
  const topic = await makeTopic()
  const rows = async () => (await drain(topic)).map(({ value }) => readRow(value ?? ''))
  return { sink: part(topic), rows }
}

/** Digits as they are written. */
function readRow(text: string): MatrixRow {
  const { id, name } = JSON.parse(text) as { id: number; name: string }
  return { id, name, big: /"big":"?(\d+)/.exec(text)?.[1] ?? '' }
}

async function postgresSink(database: TestDatabase, client: pg.Client): Promise<MatrixSink> {
  const table = uniqueName('t').replaceAll('-', '_')
  const sink = { type: 'postgresql', config: { connectionString: database.url, table, autoCreateTable: true } }
  const rows = async () => (await client.query<MatrixRow>(`select id::int, name, big::text from ${table}`)).rows
  return { sink, rows }
}

async function clickhouseSink(database: ClickhouseDatabase): Promise<MatrixSink> {
  const table = uniqueName('t').replaceAll('-', '_')
  const sink = { type: 'clickhouse', config: { connectionString: database.url, table, autoCreateTable: true } }
  return { sink, rows: () => database.rows<MatrixRow>(`select id, name, toString(big) as big from ${table}`) }
}

/** A table that Trino reads. */
async function tableSink(trino: TrinoSchema, type: 'trino' | 'nessie', place: object): Promise<MatrixSink> {
  const table = uniqueName('t').replaceAll('-', '_')
  const sink = { type, config: { ...place, table, autoCreateTable: true } }
  const rows = async () =>
    (await trino.run(`select id, name, cast(big as varchar) from ${table}`)).map(([id, name, big]) => ({ id, name, big }) as MatrixRow)
  return { sink, rows }
}
