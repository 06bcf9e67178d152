// The polled list of what an agent should run.
import type { TargetStateItem } from '@brokkr/contract/deployment-object.ts'
import type { BrokerDeps } from '../../deps.ts'
import { digestOf } from '../../domain/digest-of.ts'
import * as targetState from '../../store/target-state.ts'
import type { Handler } from '../handler.ts'
import { textAsJson } from '../write-texts.ts'
import { openTexts } from './open-texts.ts'

/** Absence in a full list counts only with its count and digest, and an incremental one is never evidence of absence. Where it cannot be
 *  shown that the list is of the history which the poller comes from, it has neither. */
export const handleTargetState: Handler<'getTargetState', BrokerDeps> = async (deps, { params, query, headers, reply }) => {
  const isFull = query.mode === 'full'
  const place = isFull ? deps.feed.placeOf(query.seen) : null
  const listed = await (isFull ? targetState.list : targetState.listNew)(deps.sql, { agent_id: params.id })
  if (isFull) {
    const { count, digest } = digestOf(
      listed.map(({ stack_id, rev, id, yaml_checksum }) => ({ stack_id, rev, object_id: id, yaml_checksum })),
    )
    if (place !== null && (await deps.feed.isProven(place))) {
      reply.setHeader('x-brokkr-count', String(count))
      reply.setHeader('x-brokkr-digest', digest)
      reply.setHeader('x-brokkr-cursor', place.view.cursorText)
      reply.setHeader('x-brokkr-history', `${place.view.epoch}/${place.view.boots.boot}`)
    }
    reply.setHeader('etag', `"${digest}"`)
    if (headers['if-none-match'] === `"${digest}"`) return reply.empty(304)
  }
  const texts = await openTexts(deps, listed)
  const withText = ({ id }: targetState.ListedItem) => {
    const [text, json] = [texts.get(id)!, deps.texts.json(id)]
    return { yaml_content: text, [textAsJson]: json && { text, json } }
  }
  return listed.map((row) => Object.assign(row, withText(row)) as unknown as TargetStateItem)
}
