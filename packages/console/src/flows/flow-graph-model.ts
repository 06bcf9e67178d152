// A flow's specification as a graph from its source over the transforms to its sinks. The text is of others, so every field is read
// carefully. Pure.
export interface FlowNode {
  readonly id: string
  readonly role: 'source' | 'transform' | 'sink' | 'errors'
  readonly type: string
  /** Table, topic or fields, as far as the specification names them. */
  readonly note: string
  readonly x: number
  readonly y: number
}
export interface FlowEdge {
  readonly id: string
  readonly from: string
  readonly to: string
  /** `errors`: dead letters. */
  readonly kind: 'data' | 'errors'
  readonly label: string | null
}
export interface FlowGraph {
  readonly nodes: readonly FlowNode[]
  readonly edges: readonly FlowEdge[]
  readonly width: number
  readonly height: number
}

type Json = Record<string, unknown>
const object = (value: unknown): Json => (typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {})
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)

export const nodeWidth = 176
export const nodeHeight = 58
const [columnGap, rowGap, margin] = [46, 20, 14]
/** More transforms are drawn as one node. */
const transformsMax = 24

const describeConnector = (config: Json): string =>
  text(config['topic']) ??
  [text(config['namespace']) ?? text(config['schema']), text(config['table'])].filter(Boolean).join('.') ??
  list(config['tables']).join(', ')

function describeTransform(config: Json): string {
  const fields = list(config['fields']).filter((field) => typeof field === 'string')
  if (fields.length > 0) return fields.slice(0, 4).join(', ')
  const routes = list(config['routes']).length
  if (routes > 0) return `${routes} ${routes === 1 ? 'route' : 'routes'}`
  return text(config['condition']) ?? text(config['field']) ?? text(config['expression']) ?? ''
}

/** Null: the specification has no source, so there is nothing to draw. */
export function toFlowGraph(flow: unknown): FlowGraph | null {
  const spec = object(object(flow)['spec'])
  const source = object(spec['source'])
  if (text(source['type']) === null) return null
  const connector = (value: Json) => ({
    type: text(value['type']) ?? 'unknown',
    note: describeConnector(object(value['config'])) || list(object(value['config'])['tables']).join(', '),
  })
  const steps = list(spec['transformations']).map(object)
  const shown = steps.slice(0, transformsMax)
  const chain = [
    { id: 'source', role: 'source' as const, ...connector(source) },
    ...shown.map((step, index) => ({
      id: `t${index}`,
      role: 'transform' as const,
      type: text(step['type']) ?? 'unknown',
      note: describeTransform(object(step['config'])),
    })),
    ...(steps.length > shown.length
      ? [{ id: 'rest', role: 'transform' as const, type: `${steps.length - shown.length} more`, note: 'transforms' }]
      : []),
  ]
  const routes = steps.flatMap((step) => list(object(step['config'])['routes']).map(object))
  const sinks = [
    { id: 'sink', role: 'sink' as const, ...connector(object(spec['sink'])), label: routes.length === 0 ? null : 'others' },
    ...routes.map((route, index) => ({
      id: `route${index}`,
      role: 'sink' as const,
      ...connector(object(route['sink'])),
      label: text(route['name']) ?? text(route['condition']),
    })),
    ...(spec['errors'] === undefined
      ? []
      : [{ id: 'errors', role: 'errors' as const, ...connector(object(spec['errors'])), label: 'dead letters' }]),
  ]
  const height = Math.max(1, sinks.length) * (nodeHeight + rowGap) - rowGap + 2 * margin
  const middle = (height - nodeHeight) / 2
  const column = (index: number) => margin + index * (nodeWidth + columnGap)
  const last = chain.at(-1)!
  return {
    nodes: [
      ...chain.map((node, index) => ({ ...node, x: column(index), y: middle })),
      ...sinks.map(({ id, role, type, note }, index) => ({
        id,
        role,
        type,
        note,
        x: column(chain.length) + 30,
        y: margin + index * (nodeHeight + rowGap),
      })),
    ],
    edges: [
      ...chain
        .slice(1)
        .map((node, index) => ({ id: `to-${node.id}`, from: chain[index]!.id, to: node.id, kind: 'data' as const, label: null })),
      ...sinks.map(({ id, role, label }) => ({
        id: `to-${id}`,
        from: last.id,
        to: id,
        kind: role === 'errors' ? ('errors' as const) : ('data' as const),
        label,
      })),
    ],
    width: column(chain.length) + 30 + nodeWidth + margin,
    height,
  }
}
