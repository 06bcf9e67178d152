// Reads the complete desired state in one response, for brokers and networks without streams. Missing stacks count as absent only if
// count and digest match.
import type { Client } from '@brokkr/contract/client.ts'
import { TargetStateItem } from '@brokkr/contract/deployments/deployment-object.ts'
import { digestText } from '@brokkr/contract/feed/digest.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { Retryable } from '@brokkr/runtime/errors.ts'
import { z } from 'zod'
import { cacheManifest, sha256 } from '../desired-state/cached-manifest.ts'
import { type DesiredStack, DesiredState } from '../desired-state/desired-state.ts'
import { isNewEpoch, type SyncState } from '../desired-state/sync-state.ts'
import type { Effect } from './effect.ts'

export type PollResult =
  | { readonly is: 'unchanged' }
  | {
      readonly is: 'list'
      readonly stacks: readonly DesiredStack[]
      readonly isComplete: boolean
      readonly etag: string | null
      readonly cursor: string | null
      /** Null: the broker does not report its epoch. */
      readonly origin: { readonly epoch: string; readonly boot: string } | null
      /** The broker rejects a cursor of another epoch, so a response to a request with a cursor proves the same epoch. */
      readonly requestHadCursor: boolean
    }

/** A v1 broker sends neither rev nor drift; its increasing sequence ids serve as rev. */
const Item = TargetStateItem.pick({
  id: true,
  stack_id: true,
  sequence_id: true,
  yaml_content: true,
  yaml_checksum: true,
  is_deletion_marker: true,
}).extend({
  stack_name: TargetStateItem.shape.stack_name.default(''),
  rev: TargetStateItem.shape.rev.optional(),
  drift: TargetStateItem.shape.drift.default('heal'),
})
const Items = z.array(Item)

export interface PollRequest {
  readonly agentId: AgentId
  readonly etag: string | null
  /** The latest cursor; null: none. */
  readonly lastCursor: string | null
}

export async function poll(deps: { client: Client }, { agentId, etag, lastCursor }: PollRequest, signal: AbortSignal): Promise<PollResult> {
  const headers = etag === null ? {} : { 'if-none-match': etag }
  const query = { mode: 'full', ...(lastCursor === null ? {} : { seen: lastCursor }) }
  const response = await deps.client.call('getTargetState', { params: { id: agentId }, query }, { headers, signal })
  if (response.status === 304) return { is: 'unchanged' }
  const items = Items.safeParse(response.body)
  if (!items.success)
    throw new Retryable(`the target state of the broker is not a list of deployment objects: ${items.error.issues[0]?.path.join('.')}`)
  const stacks = items.data.map(toDesiredStack)
  const { count, digest } = { count: response.header('x-brokkr-count'), digest: response.header('x-brokkr-digest') }
  const isComplete = count === String(stacks.length) && digest === computeDigest(stacks)
  const [epoch, boot] = response.header('x-brokkr-history')?.split('/') ?? []
  const origin = epoch === undefined || boot === undefined ? null : { epoch, boot }
  const cursor = response.header('x-brokkr-cursor')
  return { is: 'list', stacks, isComplete, etag: response.header('etag'), cursor, origin, requestHadCursor: lastCursor !== null }
}

/** A complete list replaces the state without comparing revs: without an epoch they may not be comparable. */
export function applyPollResult(
  state: SyncState,
  result: Extract<PollResult, { is: 'list' }>,
): Extract<Effect, { do: 'reconcile' | 'verified' }>[] {
  const { stacks, isComplete } = result
  const desired = isComplete ? new DesiredState() : state.desired
  const changedStacks = stacks.filter((stack) => desired.put(stack) === 'changed')
  if (!isComplete) return changedStacks.map(({ stackId }) => ({ do: 'reconcile', stackId }))
  const listed = new Set(stacks.map(({ stackId }) => stackId))
  const reconciles = state.replace(desired).map((stackId: StackId) => ({ do: 'reconcile', stackId }) as const)
  const origin = applyEpoch(state, result)
  return [...reconciles, { do: 'verified', snapshot: { listed, removals: new Set(), allowRemovals: null, ...origin } }]
}

function applyEpoch(state: SyncState, { cursor, origin, requestHadCursor }: Extract<PollResult, { is: 'list' }>) {
  if (origin === null) return { epoch: null, boot: null, isNewEpoch: false }
  const isNew = isNewEpoch(state, origin, requestHadCursor)
  Object.assign(state, origin, { lastCursor: cursor })
  return { ...origin, isNewEpoch: isNew }
}

function toDesiredStack(item: z.output<typeof Item>): DesiredStack {
  const { id, sequence_id: sequenceId, is_deletion_marker: isDeletionMarker, stack_id: stackId, stack_name: stackName, drift } = item
  const object = cacheManifest({ id, sequenceId, isDeletionMarker }, item.yaml_content)
  if (object.checksum !== item.yaml_checksum) throw new Retryable(`manifest checksum mismatch for deployment object ${id}`)
  const digestEntry = { id: object.id, checksum: object.checksum }
  return { stackId, stackName, rev: item.rev ?? sequenceId, drift, digestEntry, object }
}

const computeDigest = (stacks: readonly DesiredStack[]): string =>
  sha256(digestText(stacks.map(({ stackId, rev, digestEntry }) => ({ stackId, rev, object: digestEntry }))))
