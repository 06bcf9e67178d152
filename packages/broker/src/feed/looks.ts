// Looks: "something of this kind may be there for you, read it". Which rows mean one, and the labels and annotations through which
// an agent hears of what is meant for all who carry them.
import type { ChangeRow } from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'
import type { AgentStream } from './agent-stream.ts'
import { type WireFrame, wireFrame } from './frames.ts'
import { type Registry, scopeKey } from './registry.ts'

const whats: Readonly<Record<string, string>> = {
  agent: 'agent',
  work_order: 'work_orders',
  diagnostic: 'diagnostics',
  webhook_delivery: 'webhooks',
}
export const allLooks: readonly string[] = Object.values(whats)

/** What an agent should look at because of this row; null: nothing. */
export const lookOf = ({ object_kind }: Pick<ChangeRow, 'object_kind'>): string | null => whats[object_kind] ?? null

/** Spread over as many milliseconds as streams of this process get it: they then come at some thousand a second. */
export const lookFrame = (what: string, followers: number): WireFrame =>
  wireFrame({ type: 'look', what, spread_ms: followers > 1 ? followers : 0 })

/** Reads the labels and annotations of these agents again and follows them, and no others. */
export async function resubscribeMarks(
  deps: { sql: Sql; registry: Registry<AgentStream> },
  streams: readonly AgentStream[],
): Promise<void> {
  if (streams.length === 0) return
  const rows = await wanted.markScopes(deps.sql, { agent_ids: [...new Set(streams.map(({ agentId }) => agentId))] })
  const scopes = Map.groupBy(rows, ({ agent_id }) => agent_id)
  for (const stream of streams) {
    if (stream.state === 'closed') continue
    for (const scope of deps.registry.scopesOf(stream)) if (isMark(scope)) deps.registry.unsubscribe(stream, scope)
    for (const { scope_kind, scope_id } of scopes.get(stream.agentId) ?? []) deps.registry.subscribe(stream, scopeKey(scope_kind, scope_id))
  }
}

const isMark = (scope: string): boolean => scope.startsWith('label:') || scope.startsWith('annotation:')
