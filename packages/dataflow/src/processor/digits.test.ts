// Numbers that a double cannot hold, through every transform and into every sink of this build.
import { clickhouseDatabase } from '@brokkr/testing/servers/clickhouse.ts'
import { type NessieNamespace, nessieNamespace } from '@brokkr/testing/servers/nessie.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { trinoOnNessie, trinoSchema } from '@brokkr/testing/servers/trino.ts'
import { expect, test } from 'vitest'
import { sinkConnectors } from '../connectors/index.ts'
import { fill, makeTopic } from '../connectors/test-parts/kafka-topics.ts'
import { lakeConfig } from '../connectors/test-parts/lake.ts'
import type { transforms } from '../transforms/index.ts'
import { kafkaSetup, valuesOf } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

const digits = '"n":9007199254740993,"d":0.12345678901234567890'
const around = `${digits},"name":"x","list":[1],"at":"2026-01-01T00:00:00Z","inner":{${digits}}`

/** Each one at work on other fields; the router's sink is the test's. */
const configs: Record<keyof typeof transforms, object> = {
  timestamp: { fieldName: 'stamped' },
  flatten: { field: 'list' },
  filter: { condition: "name == 'x'" },
  mask: { fields: ['name'] },
  router: {},
  select: { fields: ['n', 'd'] },
  remove: { fields: ['name'] },
  snakeCase: {},
  camelCase: { style: 'lower' },
  debeziumUnwrap: {},
  replaceField: { renames: ['name:label'] },
  headersToPayload: { mappings: ['trace:trace'] },
  structFlatten: { delimiter: '_' },
  extractField: { field: 'inner' },
  hoistField: { field: 'whole' },
  cast: { spec: { name: 'string' } },
  timezone: { timezone: 'Europe/Oslo', fields: ['at'] },
  insertField: { fields: { added: 'y' } },
}
const types = Object.keys(configs)
const messages = types.map((which) => ({
  value: which === 'debeziumUnwrap' ? `{"which":"${which}","payload":{"op":"c","after":{${digits}}}}` : `{"which":"${which}",${around}}`,
  headers: { trace: 't' },
}))
const steps = (routed: object) =>
  types.map((type) => ({
    type,
    when: `which == '${type}'`,
    config: type === 'router' ? { routes: [{ condition: "name == 'x'", sink: routed }] } : configs[type as keyof typeof configs],
  }))

/** A main sink and one for the route, and everything that was written to both. */
interface Place {
  readonly sinks: readonly [object, object]
  readonly read: () => Promise<string[]>
}
/** Two tables that Trino reads. */
async function lakePlace(type: string, toConfig: (namespace: NessieNamespace) => object): Promise<Place> {
  const namespace = await nessieNamespace()
  const trino = await trinoOnNessie(namespace)
  const sink = (table: string) => ({ type, config: { ...toConfig(namespace), table, rawMode: true, autoCreateTable: true } })
  const read = async () =>
    (await trino.run('select data from main_target union all select data from routed_target')).map(([data]) => String(data))
  return { sinks: [sink('main_target'), sink('routed_target')], read }
}
const places: { [type: string]: () => Promise<Place> } = {
  clickhouse: async () => {
    const database = await clickhouseDatabase()
    const sink = (table: string) => ({
      type: 'clickhouse',
      config: { connectionString: database.url, table, rawMode: true, autoCreateTable: true },
    })
    const text = 'select data as text from main_target union all select data from routed_target'
    const read = async () => (await database.rows<{ text: string }>(text)).map((row) => row.text)
    return { sinks: [sink('main_target'), sink('routed_target')], read }
  },
  nessie: () => lakePlace('nessie', (namespace) => lakeConfig(namespace, {})),
  // Nessie speaks the protocol of every REST catalog.
  iceberg: () => lakePlace('iceberg', (namespace) => lakeConfig(namespace, { baseURL: undefined, catalogURI: `${namespace.url}/iceberg` })),
  kafka: async () => {
    const { kafkaSink } = await kafkaSetup()
    const topics = [await makeTopic(), await makeTopic()] as const
    const read = async () => (await Promise.all(topics.map(valuesOf))).flat().map(String)
    return { sinks: [kafkaSink(topics[0]), kafkaSink(topics[1])], read }
  },
  postgresql: async () => {
    const database = await emptyDatabase()
    const client = await database.connect()
    const sink = (table: string) => ({
      type: 'postgresql',
      config: { connectionString: database.url, table, rawMode: true, autoCreateTable: true },
    })
    const text = 'select data::text as text from main_target union all select data::text from routed_target'
    const read = async () => (await client.query<{ text: string }>(text)).rows.map((row) => row.text.replaceAll(' ', ''))
    return { sinks: [sink('main_target'), sink('routed_target')], read }
  },
  trino: async () => {
    const trino = await trinoSchema()
    const place = { serverURL: trino.url, catalog: trino.catalog, schema: trino.schema }
    const sink = (table: string) => ({ type: 'trino', config: { ...place, table, rawMode: true, autoCreateTable: true } })
    const text = 'select cast(data as varchar) from main_target union all select cast(data as varchar) from routed_target'
    const read = async () => (await trino.run(text)).map(([data]) => String(data))
    return { sinks: [sink('main_target'), sink('routed_target')], read }
  },
}

test('[D45] digits are the same after each of the eighteen transforms and in each sink', async () => {
  expect(types).toHaveLength(18)
  expect(Object.keys(places).toSorted()).toEqual(Object.keys(sinkConnectors).toSorted())
  for (const [type, open] of Object.entries(places)) {
    const { from, source } = await kafkaSetup()
    const { sinks, read } = await open()
    await fill(from, messages)
    const flow = startFlow({ source, sink: sinks[0], transformations: steps(sinks[1]) }, { isBounded: true })
    expect((await flow.done).exitCode).toBe(0)
    const written = await read()
    expect(written, type).toHaveLength(18)
    for (const text of written) {
      expect(text, type).toContain('9007199254740993')
      expect(text, type).toContain('0.12345678901234567890')
    }
  }
}, 600_000)
