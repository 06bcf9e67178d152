// Health of kinds whose rule takes one or two lines. Pure.

import { rowsAt, textAt } from '../client/fields.ts'
import type { KubeObject } from '../client/object.ts'
import { conditionStatus, findCondition } from '../controller/conditions.ts'
import { degraded, failing, type HealthContext, progressing, ready, type Verdict } from './verdict.ts'

export function judgeClaim(object: KubeObject, context: HealthContext): Verdict {
  const phase = textAt(object, 'status', 'phase') ?? 'Pending'
  if (phase === 'Bound') return ready('Bound')
  if (phase === 'Lost') return failing('Lost', 'the volume behind the claim is gone')
  if (context.waitsForConsumer) return ready('WaitForFirstConsumer', 'bound when a first pod uses it')
  return progressing(phase, 'no volume is bound yet')
}

export function judgeService(object: KubeObject): Verdict {
  if (textAt(object, 'spec', 'type') !== 'LoadBalancer' || hasAddress(object)) return ready()
  return progressing('NoAddress', 'the load balancer has no address yet')
}

const ADDRESS_MS = 5 * 60_000

export function judgeIngress(object: KubeObject, context: HealthContext): Verdict {
  if (hasAddress(object)) return ready()
  const ageMs = context.nowMs - Date.parse(object.metadata.creationTimestamp ?? '')
  // Some controllers never set it.
  return ageMs >= ADDRESS_MS
    ? ready('NoAddress', 'its controller sets no address')
    : progressing('NoAddress', 'the ingress has no address yet')
}

const hasAddress = (object: KubeObject): boolean => rowsAt(object, 'status', 'loadBalancer', 'ingress').length > 0

export function judgeDefinition(object: KubeObject): Verdict {
  if (conditionStatus(object, 'Established') === 'True') return ready('Established')
  if (conditionStatus(object, 'NamesAccepted') === 'False') return failing('NamesNotAccepted', getConditionMessage(object, 'NamesAccepted'))
  return progressing('NotEstablished', 'the kind is not served yet')
}

export function judgeApiService(object: KubeObject): Verdict {
  const status = conditionStatus(object, 'Available')
  if (status === 'True') return ready('Available')
  return status === 'False'
    ? degraded(getConditionReason(object, 'Available'), getConditionMessage(object, 'Available'))
    : progressing('NotAvailable', 'not available yet')
}

export function judgeNamespace(object: KubeObject): Verdict {
  const phase = textAt(object, 'status', 'phase') ?? 'Active'
  return phase === 'Active' ? ready('Active') : progressing(phase, `the namespace is ${phase}`)
}

export function judgeAutoscaler(object: KubeObject): Verdict {
  if (conditionStatus(object, 'ScalingActive') !== 'False') return ready()
  return degraded(getConditionReason(object, 'ScalingActive'), getConditionMessage(object, 'ScalingActive'))
}

const getConditionReason = (object: KubeObject, type: string): string => textAt(findCondition(object, type), 'reason') ?? type
const getConditionMessage = (object: KubeObject, type: string): string => textAt(findCondition(object, type), 'message') ?? ''
