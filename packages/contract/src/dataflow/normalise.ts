// A spec in either published shape, to the normal form. Pure, and the only reader of specs: webhook, operator, processor and command
// line all call it. Everything wrong is found in one go, each thing at the path the user wrote.
import { checkConfirmed, checkExactlyOnce, isUpsert, type PlacedSink, warnRepeats } from './check-delivery.ts'
import { checkMaintenance, checkReplicas, checkResources, checkRouteNames } from './check-flow.ts'
import type { Sink, Source } from './connectors/index.ts'
import { child, isMap, type Place, type Report, warn } from './field.ts'
import { cronFields, errorsFields, type FlowValues, flowFields, schedulingFields } from './flow-fields.ts'
import { readSink, readSource } from './read-connector.ts'
import { readFields } from './read-fields.ts'
import { readPart, readTransformations } from './read-transformation.ts'
import { type ErrorsSink, type Flow, type Normalised, type NormaliseOptions, routesOf, type Transformation } from './types.ts'

export function normalise(spec: unknown, options: NormaliseOptions = {}): Normalised {
  const report = openReport(options)
  const flow = isMap(spec) ? readFlow(spec, { path: 'spec', keys: [], report }, options.kind ?? 'DataFlow') : undefined
  if (!isMap(spec)) report.problems.push({ path: 'spec', rule: 'V2', reason: 'is required' })
  return { flow: report.problems.length === 0 ? flow : undefined, problems: report.problems, warnings: report.warnings }
}

const openReport = (options: NormaliseOptions): Report => ({
  problems: [],
  warnings: [],
  secrets: [],
  patterns: options.patterns,
  identity: { namespace: options.namespace ?? 'default', name: options.name ?? 'flow' },
  places: new Map(),
})

type SpecMap = Readonly<Record<string, unknown>>
const partKeys = ['source', 'sink', 'transformations', 'errors', 'scheduling']

function readFlow(spec: SpecMap, at: Place, kind: Flow['kind']): Flow | undefined {
  const source = readPart(spec, 'source', at, readSource)
  const sink = readPart(spec, 'sink', at, readSink)
  const transformations = readTransformations(spec['transformations'], child(at, 'transformations'))
  const errors = readErrors(spec['errors'], child(at, 'errors'), transformations)
  const cron = kind === 'DataFlowCron' ? readFields(cronFields, spec, at, Object.keys(spec)) : undefined
  const isCron = kind === 'DataFlowCron'
  const values = readFields(flowFields, withScheduling(spec, at), at, [...partKeys, ...(isCron ? Object.keys(cronFields) : [])])
  checkParts(at.report, { source, sink, transformations, errors, values, kind })
  if (source === undefined || sink === undefined || transformations === undefined || values === undefined) return undefined
  const completed = withOverlap(source, [sink, ...routesOf(transformations).map((route) => route.sink)])
  return { ...values, kind, source: completed, sink, transformations, errors, cron, secrets: at.report.secrets }
}

/** The older shape holds three fields in a map of their own; a field on top wins. */
function withScheduling(spec: SpecMap, at: Place): SpecMap {
  const { scheduling } = spec
  if (scheduling === undefined || scheduling === null) return spec
  const here = child(at, 'scheduling')
  const read = readFields(schedulingFields, scheduling, here)
  const taken = Object.entries(read ?? {}).filter(([key]) => spec[key] === undefined || spec[key] === null)
  for (const key of Object.keys(read ?? {}))
    if (!taken.some(([name]) => name === key)) warn(child(here, key), `is ignored: spec.${key} is set`)
  return { ...spec, ...Object.fromEntries(taken) }
}

function readErrors(value: unknown, at: Place, transformations: readonly Transformation[] | undefined): ErrorsSink | undefined {
  if (value === undefined || value === null) return undefined
  // In the normal form the sink stands apart from the three fields beside it.
  const sink = readSink(value, { ...at, keys: [...at.keys, 'sink'] }, Object.keys(errorsFields))
  const values = isMap(value) ? readFields(errorsFields, value, at, Object.keys(value)) : undefined
  if (sink === undefined || values === undefined) return undefined
  const hasMask = transformations?.some(({ type }) => type === 'mask') === true
  return { sink, ...values, payload: values.payload ?? (hasMask ? 'masked' : 'full') }
}

interface Parts {
  readonly source: Source | undefined
  readonly sink: Sink | undefined
  readonly transformations: readonly Transformation[] | undefined
  readonly errors: ErrorsSink | undefined
  readonly values: FlowValues | undefined
  readonly kind: Flow['kind']
}

/** Each rule runs as soon as the parts it looks at could be read, whatever is wrong elsewhere. */
function checkParts(report: Report, { source, sink, transformations, errors, values, kind }: Parts): void {
  const { problems } = report
  const routes = routesOf(transformations ?? [])
  const place = (of: Sink): PlacedSink => ({ sink: of, path: report.places.get(of.config) ?? 'spec.sink' })
  const written = [...(sink === undefined ? [] : [sink]), ...routes.map((route) => route.sink)].map(place)
  problems.push(...checkRouteNames(routes, (route) => report.places.get(route) ?? 'spec.transformations'))
  problems.push(...checkConfirmed(errors === undefined ? written : [...written, place(errors.sink)], errors !== undefined))
  if (source !== undefined) problems.push(...checkExactlyOnce(written, source))
  if (source !== undefined && values !== undefined)
    (values.strictIdempotency ? problems : report.warnings).push(...warnRepeats(written, source))
  if (values === undefined) return
  problems.push(
    ...checkReplicas(values.replicas, kind, source?.type),
    ...checkMaintenance(values.maintenance),
    ...checkResources(values.resources),
  )
}

/** Rows that commit late are found by reading back, which only harmless repeats allow. */
function withOverlap(source: Source, sinks: readonly Sink[]): Source {
  if (source.type !== 'postgresql') return source
  const overlapSeconds = source.config.overlapSeconds ?? (sinks.every(isUpsert) ? 5 : 0)
  return { ...source, config: { ...source.config, overlapSeconds } }
}
