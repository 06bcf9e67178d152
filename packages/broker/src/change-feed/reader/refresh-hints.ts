// Refresh hints (`look` frames): which change rows cause one, and the label and annotation scopes through which an agent receives
// hints for resources that target labels.

import type { Sql } from '@brokkr/postgres'
import * as wanted from '../../targeting/store/desired-state.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { AgentStream } from '../streams/agent-stream.ts'
import { toWireFrame, type WireFrame } from '../streams/frames.ts'
import { type Registry, scopeKey } from './registry.ts'

const hintByObjectKind: Readonly<Record<string, string>> = {
  agent: 'agent',
  work_order: 'work_orders',
  diagnostic: 'diagnostics',
  plan: 'plans',
  webhook_delivery: 'webhooks',
}
export const allRefreshHints: readonly string[] = Object.values(hintByObjectKind)

/** The resource that an agent must read again because of this row; null if none. */
export const toRefreshHint = ({ object_kind }: Pick<ChangeRow, 'object_kind'>): string | null => hintByObjectKind[object_kind] ?? null

/** Agents spread their reads over one millisecond per subscriber: about a thousand reads per second and broker. */
export const buildRefreshHintFrame = (what: string, subscribers: number): WireFrame =>
  toWireFrame({ type: 'look', what, spread_ms: subscribers > 1 ? subscribers : 0 })

/** Reads the labels and annotations of the agents again and replaces their label scopes. */
export async function resubscribeLabels(
  deps: { sql: Sql; registry: Registry<AgentStream> },
  streams: readonly AgentStream[],
): Promise<void> {
  if (streams.length === 0) return
  const rows = await wanted.markScopes(deps.sql, { agent_ids: [...new Set(streams.map(({ agentId }) => agentId))] })
  const scopes = Map.groupBy(rows, ({ agent_id }) => agent_id)
  for (const stream of streams) {
    if (stream.state === 'closed') continue
    for (const scope of deps.registry.listScopes(stream)) if (isLabelScope(scope)) deps.registry.unsubscribe(stream, scope)
    for (const { scope_kind, scope_id } of scopes.get(stream.agentId) ?? []) deps.registry.subscribe(stream, scopeKey(scope_kind, scope_id))
  }
}

const isLabelScope = (scope: string): boolean => scope.startsWith('label:') || scope.startsWith('annotation:')
