// The health of any other object, custom resources above all, by the conditions that most controllers agree on. Pure.
import { conditionStatus, findCondition } from '../conditions.ts'
import { textAt } from '../fields.ts'
import type { KubeObject } from '../object.ts'
import { degraded, failing, progressing, ready, type Verdict } from './verdict.ts'

const GOOD = ['Ready', 'Available', 'Healthy', 'Succeeded'] as const

export function judgeByConditions(object: KubeObject): Verdict {
  const say = (make: (reason: string, message: string) => Verdict, type: string): Verdict => {
    const condition = findCondition(object, type)
    return make(textAt(condition, 'reason') || type, textAt(condition, 'message') ?? '')
  }
  if (conditionStatus(object, 'Stalled') === 'True') return say(failing, 'Stalled')
  if (conditionStatus(object, 'Reconciling') === 'True') return say(progressing, 'Reconciling')
  const known = GOOD.find((type) => conditionStatus(object, type) !== undefined)
  if (known) {
    const status = conditionStatus(object, known)
    return say(status === 'True' ? ready : status === 'False' ? degraded : progressing, known)
  }
  return conditionStatus(object, 'Failed') === 'True' ? say(failing, 'Failed') : ready()
}
