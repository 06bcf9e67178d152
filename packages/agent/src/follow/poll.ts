// The polled form of the feed, for brokers and networks without the stream: the whole target state in one answer. What is left
// out counts only when the answer carries count and digest and both agree with what we hashed.
import type { Client } from '@brokkr/contract/client.ts'
import { TargetStateItem } from '@brokkr/contract/deployment-object.ts'
import { digestText } from '@brokkr/contract/digest.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { Retryable } from '@brokkr/runtime/errors.ts'
import { z } from 'zod'
import type { Effect } from './effect.ts'
import { holdObject, sha256 } from './held-object.ts'
import { Levels, type WantedStack } from './levels.ts'
import type { WantedMap } from './wanted-map.ts'

export type Polled =
  | { readonly is: 'unchanged' }
  | { readonly is: 'list'; readonly stacks: readonly WantedStack[]; readonly isComplete: boolean; readonly etag: string | null }

/** A broker of the first version names neither rev nor drift; its sequence ids only grow, so they stand for the rev. */
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

export async function poll(deps: { client: Client }, agentId: AgentId, etag: string | null, signal: AbortSignal): Promise<Polled> {
  const headers = etag === null ? {} : { 'if-none-match': etag }
  const answer = await deps.client.answer('getTargetState', { params: { id: agentId }, query: { mode: 'full' } }, { headers, signal })
  if (answer.status === 304) return { is: 'unchanged' }
  const items = Items.safeParse(answer.body)
  if (!items.success)
    throw new Retryable(`the target state of the broker is not a list of deployment objects: ${items.error.issues[0]?.path.join('.')}`)
  const stacks = items.data.map(stackOf)
  const { count, digest } = { count: answer.header('x-brokkr-count'), digest: answer.header('x-brokkr-digest') }
  const isComplete = count === String(stacks.length) && digest === digestOf(stacks)
  return { is: 'list', stacks, isComplete, etag: answer.header('etag') }
}

/** A complete list replaces the map whatever the revs are, for nothing else tells a poller of a new history. */
export function takePolled(
  map: WantedMap,
  { stacks, isComplete }: Extract<Polled, { is: 'list' }>,
): Extract<Effect, { do: 'look' | 'verified' }>[] {
  const levels = isComplete ? new Levels() : map.levels
  const news = stacks.filter((stack) => levels.put(stack) === 'news')
  if (!isComplete) return news.map(({ stackId }) => ({ do: 'look', stackId }))
  const mentioned = new Set(stacks.map(({ stackId }) => stackId))
  const looks = map.replace(levels).map((stackId: StackId) => ({ do: 'look', stackId }) as const)
  return [...looks, { do: 'verified', list: { mentioned, dels: new Set(), allowRemovals: null, epoch: null, isNewHistory: false } }]
}

function stackOf(item: z.output<typeof Item>): WantedStack {
  const { id, sequence_id: sequenceId, is_deletion_marker: isMarker } = item
  const object = holdObject({ id, sequenceId, isMarker }, item.yaml_content)
  if (object.checksum !== item.yaml_checksum) throw new Retryable(`the content of object ${id} does not have the checksum that was named`)
  const line = { id: object.id, checksum: object.checksum }
  return { stackId: item.stack_id, stackName: item.stack_name, rev: item.rev ?? item.sequence_id, drift: item.drift, line, object }
}

const digestOf = (stacks: readonly WantedStack[]): string =>
  sha256(digestText(stacks.map(({ stackId, rev, line }) => ({ stackId, rev, object: line }))))
