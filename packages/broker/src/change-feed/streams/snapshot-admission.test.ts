import { ApiError } from '@brokkr/contract/errors.ts'
import { expect, test } from 'vitest'
import { createSnapshotAdmission } from './snapshot-admission.ts'

test('snapshots run up to the slots and wait in order in a bounded queue', async () => {
  const admission = createSnapshotAdmission({ slots: 2, waitingMax: 3 })
  const order: number[] = []
  const tickets = Array.from({ length: 5 }, (_, n) => {
    const ticket = admission.join()
    void ticket.turn.then(() => order.push(n))
    return ticket
  })
  expect(() => admission.join()).toThrow(ApiError)
  await Promise.resolve()
  expect(order).toEqual([0, 1])
  expect([admission.active, admission.waiting]).toEqual([2, 3])
  tickets[3]!.release() // gave up waiting
  tickets[0]!.release()
  tickets[0]!.release() // twice is once
  await tickets[2]!.turn
  tickets[1]!.release()
  await tickets[4]!.turn
  expect(order).toEqual([0, 1, 2, 4])
  tickets[2]!.release()
  tickets[4]!.release()
  expect([admission.active, admission.waiting]).toEqual([0, 0])
})

test('a snapshot beyond the queue limit is refused with a retry time', () => {
  const admission = createSnapshotAdmission({ slots: 1, waitingMax: 0 })
  admission.join()
  const refusal = (() => {
    try {
      return admission.join()
    } catch (error) {
      return error as ApiError
    }
  })()
  expect(refusal).toMatchObject({ code: 'overloaded', status: 503 })
  expect((refusal as ApiError).retryAfterSeconds).toBeGreaterThanOrEqual(1)
})
