// Every source with every sink, once each, with a hundred rows: nothing is lost, nothing is twice, no digit changes.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectedRows, type MatrixEnds, openMatrixEnds } from './test-parts/matrix-ends.ts'
import { startFlow } from './test-parts/real-flow.ts'

const sources = ['kafka', 'postgresql', 'postgresql-cdc', 'clickhouse', 'trino', 'nessie']
const sinks = ['kafka', 'postgresql', 'clickhouse', 'trino', 'nessie']

let ends: MatrixEnds
beforeAll(async () => {
  ends = await openMatrixEnds()
}, 600_000)
afterAll(() => ends.close())

test('every type of source and sink is part of the matrix', () => {
  expect([Object.keys(ends.sources), Object.keys(ends.sinks)]).toEqual([sources, sinks])
})

test.each(sources.flatMap((source) => sinks.map((sink) => [source, sink] as const)))(
  'a flow from %s to %s writes every row once with equal values',
  { timeout: 120_000 },
  async (sourceType, sinkType) => {
    const source = await ends.sources[sourceType]!()
    const target = await ends.sinks[sinkType]!()
    const flow = startFlow({ source, sink: target.sink }, { name: `${sourceType}-${sinkType}`, isBounded: true })
    expect(await flow.done, flow.logged.slice(-5).join('\n')).toMatchObject({ exitCode: 0 })
    expect((await target.rows()).toSorted((left, right) => left.id - right.id)).toEqual(expectedRows)
  },
)
