// Health of Jobs and CronJobs. Pure.

import { flagAt, numberAt, textAt } from '../client/fields.ts'
import type { KubeObject } from '../client/object.ts'
import { findCondition, isTrue } from '../controller/conditions.ts'
import { degraded, failing, type HealthContext, progressing, ready, type Verdict } from './verdict.ts'

export function judgeJob(object: KubeObject): Verdict {
  if (isTrue(object, 'Failed')) {
    const failed = findCondition(object, 'Failed')
    return failing(textAt(failed, 'reason') ?? 'JobFailed', textAt(failed, 'message') ?? 'the job failed')
  }
  if (isTrue(object, 'Complete')) return ready('Complete')
  if (flagAt(object, 'spec', 'suspend')) return ready('Suspended')
  return progressing(
    'Running',
    `${numberAt(object, 'status', 'succeeded') ?? 0} of ${numberAt(object, 'spec', 'completions') ?? 1} completions`,
  )
}

export function judgeCronJob(_object: KubeObject, context: HealthContext): Verdict {
  const started = (job: KubeObject) => job.metadata.creationTimestamp ?? ''
  const last = (context.jobs ?? []).toSorted((a, b) => (started(a) < started(b) ? 1 : -1))[0]
  if (!last || !isTrue(last, 'Failed')) return ready()
  return degraded('LastJobFailed', `job ${last.metadata.name}: ${judgeJob(last).message}`)
}
