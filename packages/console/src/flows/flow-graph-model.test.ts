import { expect, test } from 'vitest'
import { toFlowGraph } from './flow-graph-model.ts'

const flow = (spec: unknown) => ({ apiVersion: 'dataflow.dataflow.io/v1', kind: 'DataFlow', metadata: { name: 'orders' }, spec })
const source = { type: 'kafka', config: { topic: 'orders' } }
const sink = { type: 'postgresql', config: { schema: 'public', table: 'orders' } }

test('a flow is drawn from its source over its transforms to its sink and its dead letters', () => {
  const graph = toFlowGraph(
    flow({
      source,
      sink,
      transformations: [
        { type: 'mask', config: { fields: ['email', 'card'] } },
        { type: 'filter', config: { condition: '$.a == 1' } },
      ],
      errors: { type: 'kafka', config: { topic: 'dead' } },
    }),
  )!
  expect(graph.nodes.map(({ id, role, type, note }) => [id, role, type, note])).toEqual([
    ['source', 'source', 'kafka', 'orders'],
    ['t0', 'transform', 'mask', 'email, card'],
    ['t1', 'transform', 'filter', '$.a == 1'],
    ['sink', 'sink', 'postgresql', 'public.orders'],
    ['errors', 'errors', 'kafka', 'dead'],
  ])
  expect(graph.edges.map(({ from, to, kind }) => [from, to, kind])).toEqual([
    ['source', 't0', 'data'],
    ['t0', 't1', 'data'],
    ['t1', 'sink', 'data'],
    ['t1', 'errors', 'errors'],
  ])
  expect(graph.nodes.every(({ x, y }) => x >= 0 && y >= 0 && x < graph.width && y < graph.height)).toBe(true)
})

test('routes are further sinks with their name or condition at the edge', () => {
  const router = {
    type: 'router',
    config: {
      routes: [
        { condition: '$.region == "US"', sink: source },
        { name: 'eu', sink },
      ],
    },
  }
  const graph = toFlowGraph(flow({ source, sink, transformations: [router] }))!
  expect(graph.edges.filter(({ from }) => from === 't0').map(({ to, label }) => [to, label])).toEqual([
    ['sink', 'others'],
    ['route0', '$.region == "US"'],
    ['route1', 'eu'],
  ])
})

test('many transforms are folded into one node', () => {
  const graph = toFlowGraph(flow({ source, sink, transformations: Array.from({ length: 30 }, () => ({ type: 'flatten' })) }))!
  expect(graph.nodes.find(({ id }) => id === 'rest')).toMatchObject({ type: '6 more' })
  expect(graph.nodes).toHaveLength(1 + 24 + 1 + 1)
})

test.each([[null], ['text'], [[]], [{}], [flow(null)], [flow({ source: 7 })]])('%j has no graph', (given) => {
  expect(toFlowGraph(given)).toBeNull()
})

test('fields of a wrong type are left out', () => {
  const graph = toFlowGraph(
    flow({ source: { type: 'kafka', config: 3 }, sink: [], transformations: [null, { type: 5, config: { fields: 1 } }] }),
  )!
  expect(graph.nodes.map(({ type, note }) => [type, note])).toEqual([
    ['kafka', ''],
    ['unknown', ''],
    ['unknown', ''],
    ['unknown', ''],
  ])
})
