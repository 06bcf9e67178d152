// Health of a pod: why its containers wait or terminated. Pure.

import { rowsAt, textAt } from '../client/fields.ts'
import type { Fields, KubeObject } from '../client/object.ts'
import { findCondition, isTrue } from '../controller/conditions.ts'
import { degraded, failing, progressing, ready, unknown, type Verdict } from './verdict.ts'

// biome-ignore format: a table
const WAITING: ReadonlySet<string> = new Set([
  'ImagePullBackOff', 'ErrImagePull', 'CrashLoopBackOff', 'CreateContainerConfigError', 'InvalidImageName', 'RunContainerError', 'ContainerCannotRun',
  'CreateContainerError', 'ErrImageNeverPull', 'ImageInspectError',
])
const TERMINATED: ReadonlySet<string> = new Set(['OOMKilled', 'Error', 'ContainerCannotRun'])

export function judgePod(pod: KubeObject): Verdict {
  const phase = textAt(pod, 'status', 'phase')
  const text = textAt(pod, 'status', 'message') ?? textAt(pod, 'status', 'reason') ?? ''
  if (phase === 'Failed') return failing('PodFailed', text || 'the pod failed')
  if (phase === 'Unknown') return unknown('PodUnknown', text || 'its node does not answer')
  return judgeContainers(pod) ?? judgeScheduling(pod) ?? judgePhase(pod, phase)
}

function judgeContainers(pod: KubeObject): Verdict | undefined {
  const inits = rowsAt(pod, 'status', 'initContainerStatuses').map((status) => findContainerProblem(status, 'InitContainer:'))
  const mains = rowsAt(pod, 'status', 'containerStatuses').map((status) => findContainerProblem(status, ''))
  return [...mains, ...inits].find((trouble) => trouble !== undefined)
}

function findContainerProblem(status: Fields, prefix: string): Verdict | undefined {
  const name = textAt(status, 'name') ?? ''
  const trouble = (reason: string, text: string | undefined) => degraded(`${prefix}${reason}`, `container ${name}: ${text ?? reason}`)
  const waiting = textAt(status, 'state', 'waiting', 'reason')
  if (waiting !== undefined && WAITING.has(waiting)) return trouble(waiting, textAt(status, 'state', 'waiting', 'message'))
  const terminated = textAt(status, 'state', 'terminated', 'reason')
  if (terminated !== undefined && TERMINATED.has(terminated)) return trouble(terminated, textAt(status, 'state', 'terminated', 'message'))
  if (textAt(status, 'lastState', 'terminated', 'reason') === 'OOMKilled') return trouble('OOMKilled', 'was killed for its memory before')
  return undefined
}

function judgeScheduling(pod: KubeObject): Verdict | undefined {
  const scheduled = findCondition(pod, 'PodScheduled')
  if (textAt(scheduled, 'status') !== 'False' || textAt(scheduled, 'reason') !== 'Unschedulable') return undefined
  return degraded('Unschedulable', textAt(scheduled, 'message') ?? 'no node takes the pod')
}

function judgePhase(pod: KubeObject, phase: string | undefined): Verdict {
  if (phase === 'Succeeded') return ready('Succeeded')
  if (phase === 'Running' && isTrue(pod, 'Ready')) return ready()
  return progressing(
    phase === 'Running' ? 'NotReady' : 'Pending',
    textAt(findCondition(pod, 'Ready'), 'message') ?? 'the pod is not ready yet',
  )
}
