// Health of a DataFlow or DataFlowCron. Pure.

import { flagAt, textAt } from '../client/fields.ts'
import type { KubeObject } from '../client/object.ts'
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
