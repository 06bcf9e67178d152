import { ApiError } from '@brokkr/contract/error.ts'
import { expect, test } from 'vitest'
import { createAdmission } from './admission.ts'

test('as many as there are slots go at once, the others in the order they came, and the line is bounded', async () => {
  const admission = createAdmission({ slots: 2, waitingMax: 3 })
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
  tickets[3]!.done() // gave up waiting
  tickets[0]!.done()
  tickets[0]!.done() // twice is once
  await tickets[2]!.turn
  tickets[1]!.done()
  await tickets[4]!.turn
  expect(order).toEqual([0, 1, 2, 4])
  tickets[2]!.done()
  tickets[4]!.done()
  expect([admission.active, admission.waiting]).toEqual([0, 0])
})

test('who finds the line full is told when to come back', () => {
  const admission = createAdmission({ slots: 1, waitingMax: 0 })
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
