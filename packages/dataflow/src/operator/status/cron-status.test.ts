import { expect, test } from 'vitest'
import { type CronStatusInput, judgeCron } from './cron-status.ts'
import { noMaintenance } from './maintenance.ts'

const base: CronStatusInput = {
  object: { apiVersion: 'dataflow.dataflow.io/v1', kind: 'DataFlowCron', metadata: { name: 'c', namespace: 'n', generation: 1 } },
  before: {},
  failure: undefined,
  migrating: undefined,
  stopped: undefined,
  specHash: undefined,
  cronJob: undefined,
  runs: [],
  counters: undefined,
  maintenance: noMaintenance,
  oneShots: undefined,
  nowMs: 0,
}
const failure = { at: 'applied', reason: 'NameTaken', message: 'taken' } as const
const migrating = 'Job dfc-c-1'

test.each<[string, Partial<CronStatusInput>, object]>([
  ['no run yet', {}, { status: 'True', reason: 'Pending' }],
  ['suspended', { stopped: 'suspended' }, { status: 'True', reason: 'Stopped', message: 'suspended' }],
  ['not applied', { failure }, { status: 'False', reason: 'Error', message: 'taken' }],
  [
    'an old run goes on',
    { migrating },
    { status: 'False', reason: 'Migrating', message: 'waits for the end of Job dfc-c-1, which the public operator left' },
  ],
  ['an old run goes on while suspended', { migrating, stopped: 'suspended' }, { status: 'False', reason: 'Migrating' }],
  ['the old run has ended', { before: judgeCron({ ...base, migrating }) }, { status: 'True', reason: 'Pending' }],
])('Ready: %s', (_title, input, wanted) => {
  const { conditions } = judgeCron({ ...base, ...input })
  expect(conditions?.find(({ type }) => type === 'Ready')).toMatchObject(wanted)
})
