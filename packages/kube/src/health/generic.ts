// Health of other kinds, such as custom resources, by the conditions that most controllers use. Pure.

import { textAt } from '../client/fields.ts'
import type { KubeObject } from '../client/object.ts'
import { conditionStatus, findCondition } from '../controller/conditions.ts'
import { degraded, failing, progressing, ready, type Verdict } from './verdict.ts'

const GOOD = ['Ready', 'Available', 'Healthy', 'Succeeded'] as const

export function judgeByConditions(object: KubeObject): Verdict {
  const say = (make: (reason: string, message: string) => Verdict, type: string): Verdict => {
    const condition = findCondition(object, type)
    return make(textAt(condition, 'reason') || type, textAt(condition, 'message') ?? '')
  }
  if (conditionStatus(object, 'Stalled') === 'True') return say(failing, 'Stalled')
  if (conditionStatus(object, 'Reconciling') === 'True') return say(progressing, 'Reconciling')
  const goodCondition = GOOD.find((type) => conditionStatus(object, type) !== undefined)
  if (goodCondition) {
    const status = conditionStatus(object, goodCondition)
    return say(status === 'True' ? ready : status === 'False' ? degraded : progressing, goodCondition)
  }
  return conditionStatus(object, 'Failed') === 'True' ? say(failing, 'Failed') : ready()
}
