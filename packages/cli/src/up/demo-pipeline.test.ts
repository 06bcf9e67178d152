import { expect, test } from 'vitest'
import { describePromotion } from './demo-pipeline.ts'

const spec = { revision: '1.1.0' }

test.each(['Rejected', 'Expired', 'Abandoned', 'Failed', 'Errored', 'Aborted', 'Superseded', 'Blocked'])(
  'a demo promotion that is %s is shown at once with the way to try again',
  (phase) => {
    expect(describePromotion({ spec, status: { phase } })).toEqual({
      detail: `hello: 1.1.0 is ${phase}; try again: brokkr pipeline retry hello/prod`,
      value: undefined,
      skipped: true,
    })
  },
)

test.each([
  ['AwaitingApproval', 'hello: 1.1.0 waits for approval into prod'],
  ['Succeeded', 'hello: 1.1.0 is in prod'],
])('a demo promotion that is %s ends the wait', (phase, detail) => {
  expect(describePromotion({ spec, status: { phase } })).toEqual({ detail, value: undefined })
})

test.each([undefined, 'Pending', 'Queued', 'Running', 'Applied', 'Verifying'])('a demo promotion in phase %s is waited for', (phase) => {
  expect(describePromotion({ spec, status: { phase } })).toBeNull()
})
