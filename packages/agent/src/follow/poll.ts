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
import { isOtherHistory, type WantedMap } from './wanted-map.ts'

export type Polled =
  | { readonly is: 'unchanged' }
  | {
      readonly is: 'list'
      readonly stacks: readonly WantedStack[]
      readonly isComplete: boolean
      readonly etag: string | null
      readonly cursor: string | null
      /** Null: a broker that does not say. */
      readonly history: { readonly epoch: string; readonly boot: string } | null
      /** It was asked for with a cursor, and a broker that knows histories proves nothing to whoever comes from another one. */
      readonly hasShown: boolean
    }

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

export interface PollWish {
  readonly agentId: AgentId
  readonly etag: string | null
  /** The newest cursor there was; null: none. */
  readonly seen: string | null
}

export async function poll(deps: { client: Client }, { agentId, etag, seen }: PollWish, signal: AbortSignal): Promise<Polled> {
  const headers = etag === null ? {} : { 'if-none-match': etag }
  const query = { mode: 'full', ...(seen === null ? {} : { seen }) }
  const answer = await deps.client.answer('getTargetState', { params: { id: agentId }, query }, { headers, signal })
  if (answer.status === 304) return { is: 'unchanged' }
  const items = Items.safeParse(answer.body)
  if (!items.success)
    throw new Retryable(`the target state of the broker is not a list of deployment objects: ${items.error.issues[0]?.path.join('.')}`)
  const stacks = items.data.map(stackOf)
  const { count, digest } = { count: answer.header('x-brokkr-count'), digest: answer.header('x-brokkr-digest') }
  const isComplete = count === String(stacks.length) && digest === digestOf(stacks)
  const [epoch, boot] = answer.header('x-brokkr-history')?.split('/') ?? []
  const history = epoch === undefined || boot === undefined ? null : { epoch, boot }
  const cursor = answer.header('x-brokkr-cursor')
  return { is: 'list', stacks, isComplete, etag: answer.header('etag'), cursor, history, hasShown: seen !== null }
}

/** A complete list replaces the map whatever the revs are: brokers that do not say of which history it is may have another one. */
export function takePolled(map: WantedMap, polled: Extract<Polled, { is: 'list' }>): Extract<Effect, { do: 'look' | 'verified' }>[] {
  const { stacks, isComplete } = polled
  const levels = isComplete ? new Levels() : map.levels
  const news = stacks.filter((stack) => levels.put(stack) === 'news')
  if (!isComplete) return news.map(({ stackId }) => ({ do: 'look', stackId }))
  const mentioned = new Set(stacks.map(({ stackId }) => stackId))
  const looks = map.replace(levels).map((stackId: StackId) => ({ do: 'look', stackId }) as const)
  const history = takeHistory(map, polled)
  return [...looks, { do: 'verified', list: { mentioned, dels: new Set(), allowRemovals: null, ...history } }]
}

function takeHistory(map: WantedMap, { cursor, history, hasShown }: Extract<Polled, { is: 'list' }>) {
  if (history === null) return { epoch: null, boot: null, isNewHistory: false }
  const isNewHistory = isOtherHistory(map, history, hasShown)
  Object.assign(map, history, { seen: cursor })
  return { ...history, isNewHistory }
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
