// brokkr flows list.
import { type KubeObject, numberAt, textAt } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { print } from '../../output.ts'
import { formatTable } from '../../table.ts'
import { readFlows, withCluster } from './cluster-flows.ts'
import type { FlowFlags } from './flags.ts'

export async function listFlows(globals: Globals, options: FlowFlags): Promise<void> {
  const flows = await withCluster(globals, options, (kube) => readFlows(kube, options))
  if (options.output === 'json') return print(JSON.stringify(flows.map(toEntry), null, 2))
  if (flows.length === 0) return print('no flows')
  print(
    formatTable({
      head: ['NAMESPACE', 'NAME', 'KIND', 'PHASE', 'FLOW', 'RATE', 'PROCESSED', 'ERRORS', 'LAG', 'MESSAGE'],
      rows: flows.map(toRow),
    }),
  )
}

const toEntry = ({ kind, metadata, status }: KubeObject) => ({
  kind,
  namespace: metadata.namespace,
  name: metadata.name,
  status: status ?? {},
})

function toRow(flow: KubeObject): string[] {
  const count = (key: string): string => formatCount(numberAt(flow, 'status', key))
  const route = `${textAt(flow, 'spec', 'source', 'type') ?? '?'} → ${textAt(flow, 'spec', 'sink', 'type') ?? '?'}`
  const isStale = (flow.status?.['progress'] as { stale?: unknown } | undefined)?.stale === true
  const rate = numberAt(flow, 'status', 'processedPerSecond')
  return [
    flow.metadata.namespace ?? '',
    flow.metadata.name,
    flow.kind,
    textAt(flow, 'status', 'phase') ?? '-',
    route,
    rate === undefined || isStale ? '-' : `${rate}/s`,
    `${count('processedCount')}${isStale ? ' (stale)' : ''}`,
    count('errorCount'),
    formatLag(flow),
    textAt(flow, 'status', 'message') ?? '',
  ]
}

const formatCount = (value: number | undefined): string => (value === undefined ? '-' : String(value))

/** A part that the source cannot measure is absent. */
export function formatLag(flow: KubeObject): string {
  const part = (key: string, unit: string): string[] => {
    const value = numberAt(flow, 'status', 'lag', key)
    return value === undefined ? [] : [`${Math.round(value)}${unit}`]
  }
  return [...part('messages', ''), ...part('seconds', ' s'), ...part('bytes', ' B')].join(', ') || '-'
}
