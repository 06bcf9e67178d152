import type { KubeObject } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { label } from '../names.ts'
import { type CronRun, listRuns, resultAnnotation, toRunId } from './cron-runs.ts'

const job = (
  uid: string,
  end: string | undefined,
  labels: Record<string, string>,
  annotations: Record<string, string> = {},
  controller = 'cron',
): KubeObject => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: {
    name: `job-${uid}`,
    uid,
    labels,
    annotations,
    creationTimestamp: `2026-01-01T00:00:0${uid.length}Z`,
    ownerReferences: [owner(controller)],
  },
  status: end === undefined ? {} : { conditions: [{ type: end, status: 'True', lastTransitionTime: '2026-01-01T01:00:00Z' }] },
})
const owner = (uid: string) => ({ apiVersion: 'batch/v1', kind: 'CronJob', name: 'c', uid, controller: true })
const processor = (end?: string, annotations?: Record<string, string>, uid = 'p') =>
  job(uid, end, { [label.triggerIndex]: 'processor' }, annotations)
const runId = toRunId(processor())
const trigger = (index: string, end?: string) => job(`t${index}`, end, { [label.triggerIndex]: index, [label.runId]: runId }, {}, 'p')

test.each<[string, KubeObject[], number, Partial<CronRun>]>([
  ['the processor runs', [processor()], 2, { phase: 'RunningProcessor', index: -1, activeJob: 'job-p', startTrigger: undefined }],
  ['the processor failed', [processor('Failed')], 2, { phase: 'Failed', index: -1, startTrigger: undefined, isNew: true }],
  ['the processor has ended', [processor('Complete')], 2, { phase: 'RunningTriggers', index: 0, startTrigger: 0 }],
  [
    'a trigger runs',
    [processor('Complete'), trigger('0')],
    2,
    { phase: 'RunningTriggers', index: 0, activeJob: 'job-t0', startTrigger: undefined },
  ],
  ['a trigger has ended', [processor('Complete'), trigger('0', 'Complete')], 2, { phase: 'RunningTriggers', index: 1, startTrigger: 1 }],
  ['a trigger failed', [processor('Complete'), trigger('0', 'Failed')], 2, { phase: 'Failed', index: 0, startTrigger: undefined }],
  ['all have ended', [processor('Complete'), trigger('0', 'Complete'), trigger('1', 'Complete')], 2, { phase: 'Completed', index: 1 }],
  ['a strange index is ignored', [processor('Complete'), trigger('x', 'Failed')], 1, { phase: 'RunningTriggers', startTrigger: 0 }],
  [
    'a noted run gets no trigger that was added later',
    [processor('Complete', { [resultAnnotation]: 'Completed' })],
    1,
    { phase: 'Completed', startTrigger: undefined, isNew: false },
  ],
])('[D119] %s', (_title, jobs, triggers, wanted) => {
  expect(listRuns(jobs, triggers, 'cron')).toEqual([expect.objectContaining(wanted)])
})

test('runs are in the order of their starts', () => {
  expect(
    listRuns([processor('Complete', {}, 'late'), processor('Complete', {}, 'a')], 0, 'cron').map((run) => run.job.metadata.uid),
  ).toEqual(['a', 'late'])
})

test('[D119] Jobs of other controllers are no runs and no triggers, whatever their labels', () => {
  const labels = { [label.triggerIndex]: 'processor' }
  const foreign = [job('x', 'Failed', labels, {}, 'other'), { ...job('y', undefined, labels), metadata: { name: 'y', uid: 'y', labels } }]
  expect(listRuns(foreign, 1, 'cron')).toEqual([])
  expect(listRuns([processor()], 1, undefined)).toEqual([])
  const trigger0 = job('t', 'Failed', { [label.triggerIndex]: '0', [label.runId]: runId }, {}, 'other')
  expect(listRuns([processor('Complete'), trigger0], 1, 'cron')).toEqual([
    expect.objectContaining({ phase: 'RunningTriggers', startTrigger: 0 }),
  ])
})
