// brokkr flows describe: status, conditions and the latest events of one flow.
import { type Kube, type KubeObject, rowsAt, textAt } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { print } from '../../output.ts'
import { formatTable } from '../../table.ts'
import { findFlow, requestMs, withCluster } from './cluster-flows.ts'
import type { FlowFlags } from './flags.ts'
import { formatLag } from './list.ts'

const eventsMax = 20
const shown = [
  'readCount',
  'processedCount',
  'writtenCount',
  'droppedCount',
  'errorCount',
  'processedPerSecond',
  'position',
  'lastProcessedTime',
  'countersSince',
  'appliedReset',
  'appliedRewind',
  'currentRunID',
  'lastScheduleTime',
  'lastSuccessfulTime',
  'lastFailedTime',
] as const

export async function describeFlow(globals: Globals, name: string, options: FlowFlags): Promise<void> {
  await withCluster(globals, options, async (kube) => {
    const flow = await findFlow(kube, name, options)
    const events = await readEvents(kube, flow)
    if (options.output === 'json')
      print(JSON.stringify({ kind: flow.kind, metadata: flow.metadata, spec: flow.spec, status: flow.status, events }, null, 2))
    else printFlow(flow, events)
  })
}

function printFlow(flow: KubeObject, events: readonly FlowEvent[]): void {
  const { status = {}, metadata, kind } = flow
  print(`${kind} ${metadata.namespace}/${metadata.name}: ${textAt(status, 'phase') ?? 'no status yet'} ${textAt(status, 'message') ?? ''}`)
  for (const key of shown) if (status[key] !== undefined) print(`  ${key.padEnd(20)} ${formatValue(status[key])}`)
  print(`  ${'lag'.padEnd(20)} ${formatLag(flow)}`)
  if (status['blocked'] !== undefined) print(`  ${'blocked'.padEnd(20)} ${JSON.stringify(status['blocked'])}`)
  if (status['progress'] !== undefined) print(`  ${'progress'.padEnd(20)} ${JSON.stringify(status['progress'])}`)
  const conditions = rowsAt(status, 'conditions').map((row) => ['type', 'status', 'reason', 'message'].map((key) => textAt(row, key) ?? ''))
  if (conditions.length > 0) print(`\n${formatTable({ head: ['CONDITION', 'STATUS', 'REASON', 'MESSAGE'], rows: conditions })}`)
  if (events.length > 0)
    print(
      `\n${formatTable({ head: ['LAST', 'COUNT', 'TYPE', 'REASON', 'MESSAGE'], rows: events.map(({ last, count, type, reason, message }) => [last, String(count), type, reason, message]) })}`,
    )
}

const formatValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

interface FlowEvent {
  readonly last: string
  readonly count: number
  readonly type: string
  readonly reason: string
  readonly message: string
}

/** The newest last. */
async function readEvents(kube: Kube, { metadata }: KubeObject): Promise<FlowEvent[]> {
  const { items } = await kube.list(
    { apiVersion: 'v1', kind: 'Event' },
    { namespace: metadata.namespace, fieldSelector: `involvedObject.uid=${metadata.uid ?? ''}`, signal: AbortSignal.timeout(requestMs) },
  )
  const events = items.map((event) => ({
    last: textAt(event, 'lastTimestamp') ?? event.metadata.creationTimestamp ?? '',
    count: Number(event['count'] ?? 1),
    type: textAt(event, 'type') ?? '',
    reason: textAt(event, 'reason') ?? '',
    message: textAt(event, 'message') ?? '',
  }))
  return events.toSorted((left, right) => (left.last < right.last ? -1 : 1)).slice(-eventsMax)
}
