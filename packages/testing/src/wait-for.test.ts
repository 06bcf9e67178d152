import { expect, test } from 'vitest'
import { waitFor } from './wait-for.ts'

test('a fact that is already there is returned by the first probe', async () => {
  let probes = 0
  expect(await waitFor('a thing', () => ++probes && 'thing')).toBe('thing')
  expect(probes).toBe(1)
})

test.each([0, '', Number.NaN])('the value %j counts as there', async (value) => {
  expect(await waitFor('a value', () => value)).toBe(value)
})

test.each([undefined, null, false] as const)('%j means not yet, and so does a throw', async (notYet) => {
  const answers = [() => notYet, () => Promise.resolve(notYet), throws, () => Promise.reject(new Error('refused')), () => 7]
  expect(await waitFor('seven', () => answers.shift()?.())).toBe(7)
})

test('the error contains the subject, the duration, the last value and the extra text', async () => {
  const failure = waitFor('the row', () => null, { limitMs: 20, everyMs: 5, onTimeout: () => 'log tail: nothing' })
  await expect(failure).rejects.toThrow(/^Waited \d+ ms \(\d+ probes\) for the row, in vain\. Last value: null\.\nlog tail: nothing$/)
})

test('the error holds the last error of a probe that threw', async () => {
  await expect(waitFor('the port', throws, { limitMs: 10 })).rejects.toThrow(/for the port, in vain\. Last error: Error: refused/)
})

test('a probe that never answers does not outlast the limit', async () => {
  const failure = waitFor('an answer', () => new Promise<boolean>(() => undefined), { limitMs: 10 })
  await expect(failure).rejects.toThrow('The last probe did not answer.')
})

test('an extra text that fails does not hide the subject', async () => {
  const failure = waitFor('the row', () => false, { limitMs: 5, onTimeout: throws })
  await expect(failure).rejects.toThrow(/for the row, in vain.*\n\(no further text: refused\)$/s)
})

function throws(): never {
  throw new Error('refused')
}
