import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { createProgress } from './progress.ts'

/** What a step that throws leaves on the screen. */
async function lineOf({ isStopped }: { isStopped: boolean }): Promise<string> {
  const out = new PassThrough()
  const stopping = new AbortController()
  const progress = createProgress({ plain: true, signal: stopping.signal, out: out as unknown as NodeJS.WriteStream })
  const broken = new Error('cut off')
  const step = progress.step('practice', async () => {
    if (isStopped) stopping.abort()
    throw broken
  })
  await expect(step).rejects.toBe(broken)
  return String(out.read())
}

test('progress shows a failed step as failed, and a canceled one as stopped', async () => {
  expect(await lineOf({ isStopped: false })).toMatch(/✖ practice +failed/)
  expect(await lineOf({ isStopped: true })).toMatch(/− practice +stopped before it was ready/)
})
