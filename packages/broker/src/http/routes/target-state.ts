// The polled list of what an agent should run.
import type { TargetStateItem } from '@brokkr/contract/deployment-object.ts'
import type { BrokerDeps } from '../../deps.ts'
import { digestOf } from '../../domain/digest-of.ts'
import * as targetState from '../../store/target-state.ts'
import type { Handler } from '../handler.ts'
import { openTexts } from './open-texts.ts'

/** Absence in a full list counts only with its count and digest, and an incremental one is never evidence of absence. */
export const handleTargetState: Handler<'getTargetState', BrokerDeps> = async (deps, { params, query, headers, reply }) => {
  const isFull = query.mode === 'full'
  const listed = await targetState.list(deps.sql, { agent_id: params.id, only_new: !isFull })
  if (isFull) {
    const { count, digest } = digestOf(listed.map((row) => ({ ...row, object_id: row.id })))
    reply.setHeader('x-brokkr-count', String(count))
    reply.setHeader('x-brokkr-digest', digest)
    reply.setHeader('etag', `"${digest}"`)
    if (headers['if-none-match'] === `"${digest}"`) return reply.empty(304)
  }
  const texts = await openTexts(deps, listed)
  return listed.map(({ yaml_bytes: _bytes, ...row }) => ({ ...row, yaml_content: texts.get(row.id) ?? '' }) as TargetStateItem)
}
