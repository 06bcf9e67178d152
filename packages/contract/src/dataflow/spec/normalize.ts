// Normalizes a spec of either published shape. Pure, and the only reader of specs: webhook, operator, processor and CLI use it. Reports all
// problems at once, each at the path the user wrote.

import type { Sink, Source } from '../connectors/index.ts'
import { child, isMap, type Report, type SpecLocation, warn } from '../fields/field.ts'
import { readFields } from '../fields/read-fields.ts'
import { checkConfirmed, checkExactlyOnce, checkSplitTransactions, isUpsert, type PlacedSink, warnRepeats } from './check-delivery.ts'
import { checkMaintenance, checkReplicas, checkResources, checkRouteNames } from './check-flow.ts'
import { cronFields, errorsFields, type FlowValues, flowFields, schedulingFields } from './flow-fields.ts'
import { readSink, readSource } from './read-connector.ts'
import { readPart, readTransformations } from './read-transformation.ts'
import { type ErrorsSink, type Flow, listRoutes, type NormalizeOptions, type NormalizeResult, type Transformation } from './types.ts'

export function normalize(spec: unknown, options: NormalizeOptions = {}): NormalizeResult {
  const report = openReport(options)
  const flow = isMap(spec) ? readFlow(spec, { path: 'spec', keys: [], report }, options.kind ?? 'DataFlow') : undefined
  if (!isMap(spec)) report.problems.push({ path: 'spec', rule: 'V2', reason: 'is required' })
  return { flow: report.problems.length === 0 ? flow : undefined, problems: report.problems, warnings: report.warnings }
}

const openReport = (options: NormalizeOptions): Report => ({
  problems: [],
  warnings: [],
  secrets: [],
  patterns: options.patterns,
  identity: { namespace: options.namespace ?? 'default', name: options.name ?? 'flow' },
  places: new Map(),
})

type SpecMap = Readonly<Record<string, unknown>>
const partKeys = ['source', 'sink', 'transformations', 'errors', 'scheduling']

function readFlow(spec: SpecMap, at: SpecLocation, kind: Flow['kind']): Flow | undefined {
  const source = readPart(spec, 'source', at, readSource)
  const sink = readPart(spec, 'sink', at, readSink)
  const transformations = readTransformations(spec['transformations'], child(at, 'transformations'))
  const errors = readErrors(spec['errors'], child(at, 'errors'), transformations)
  const cron = kind === 'DataFlowCron' ? readFields(cronFields, spec, at, Object.keys(spec)) : undefined
  const isCron = kind === 'DataFlowCron'
  const values = readFields(flowFields, withScheduling(spec, at), at, [...partKeys, ...(isCron ? Object.keys(cronFields) : [])])
  checkParts(at.report, { source, sink, transformations, errors, values, kind })
  if (source === undefined || sink === undefined || transformations === undefined || values === undefined) return undefined
  const completed = withOverlap(source, [sink, ...listRoutes(transformations).map((route) => route.sink)])
  return { ...values, kind, source: completed, sink, transformations, errors, cron, secrets: at.report.secrets }
}

/** The older shape has three fields in a map; a top-level field wins. */
function withScheduling(spec: SpecMap, at: SpecLocation): SpecMap {
  const { scheduling } = spec
  if (scheduling === undefined || scheduling === null) return spec
  const here = child(at, 'scheduling')
  const values = readFields(schedulingFields, scheduling, here)
  const inherited = Object.entries(values ?? {}).filter(([key]) => spec[key] === undefined || spec[key] === null)
  for (const key of Object.keys(values ?? {}))
    if (!inherited.some(([name]) => name === key)) warn(child(here, key), `is ignored: spec.${key} is set`)
  return { ...spec, ...Object.fromEntries(inherited) }
}

function readErrors(value: unknown, at: SpecLocation, transformations: readonly Transformation[] | undefined): ErrorsSink | undefined {
  if (value === undefined || value === null) return undefined
  // In the normalized flow, the errors sink is separate from its three other fields.
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

/** Each rule runs if its parts could be read, even if other parts have problems. */
function checkParts(report: Report, { source, sink, transformations, errors, values, kind }: Parts): void {
  const { problems } = report
  const routes = listRoutes(transformations ?? [])
  const place = (of: Sink): PlacedSink => ({ sink: of, path: report.places.get(of.config) ?? 'spec.sink' })
  const writtenSinks = [...(sink === undefined ? [] : [sink]), ...routes.map((route) => route.sink)].map(place)
  problems.push(...checkRouteNames(routes, (route) => report.places.get(route) ?? 'spec.transformations'))
  problems.push(...checkConfirmed(errors === undefined ? writtenSinks : [...writtenSinks, place(errors.sink)], errors !== undefined))
  if (source !== undefined) problems.push(...checkExactlyOnce(writtenSinks, source))
  problems.push(...checkSplitTransactions(writtenSinks, transformations ?? []))
  if (source !== undefined && values !== undefined)
    (values.strictIdempotency ? problems : report.warnings).push(...warnRepeats(writtenSinks, source))
  if (values === undefined) return
  problems.push(
    ...checkReplicas(values.replicas, kind, source?.type),
    ...checkMaintenance(values.maintenance),
    ...checkResources(values.resources),
  )
}

/** An overlap finds rows that commit late; only idempotent sinks allow it. */
function withOverlap(source: Source, sinks: readonly Sink[]): Source {
  if (source.type !== 'postgresql') return source
  const overlapSeconds = source.config.overlapSeconds ?? (sinks.every(isUpsert) ? 5 : 0)
  return { ...source, config: { ...source.config, overlapSeconds } }
}
