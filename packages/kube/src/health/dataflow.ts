// Health of a DataFlow or DataFlowCron, and the figures of its status that are reported with it. Pure.

import { flagAt, numberAt, textAt, valueAt } from '../client/fields.ts'
import type { Fields, KubeObject } from '../client/object.ts'
import { conditionStatus, findCondition } from '../controller/conditions.ts'
import { degraded, failing, progressing, ready, unknown, type Verdict } from './verdict.ts'

export function judgeDataflow(object: KubeObject): Verdict {
  const phase = textAt(object, 'status', 'phase') ?? ''
  const message = textAt(object, 'status', 'message') ?? ''
  if (phase === 'Error') return failing('Error', message)
  if (flagAt(object, 'status', 'progress', 'stale')) return unknown('Stale', 'the processor has not been heard of lately')
  const flowing = findCondition(object, 'Flowing')
  if (textAt(flowing, 'status') === 'False')
    return degraded(textAt(flowing, 'reason') ?? 'NotFlowing', textAt(flowing, 'message') ?? message)
  if (conditionStatus(object, 'Ready') === 'True') return ready()
  if (phase === 'Stopped' && /^(paused by hand|in maintenance)/.test(message)) return ready('Stopped', message)
  return progressing(phase || 'Pending', message)
}

const FLOW_BYTES_MAX = 4 * 1024

/** Part of a flow's status that is reported. Omitted as a whole if a text in it is too long. */
export function findFlow(object: KubeObject): Fields | undefined {
  const status = object.status
  if (!status) return undefined
  const flow = {
    phase: textAt(status, 'phase'),
    processed: numberAt(status, 'processedCount'),
    written: numberAt(status, 'writtenCount'),
    dropped: numberAt(status, 'droppedCount'),
    errors: numberAt(status, 'errorCount'),
    lag: valueAt(status, 'lag'),
    blocked: valueAt(status, 'blocked'),
    observed_at: textAt(status, 'progress', 'observedAt'),
  }
  const { blocked: _blocked, ...short } = flow
  return [flow, short].find((candidate) => Buffer.byteLength(JSON.stringify(candidate)) <= FLOW_BYTES_MAX)
}
