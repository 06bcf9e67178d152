import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runScript } from '../test-parts/run-script.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { type Lock, lockHolder, tryLock, waitForLock } from './lock-file.ts'

test('tryLock returns the holder and its info while the lock is held', () => {
  const folder = join(tempDir(), 'a.lock')
  const lock = take(folder)
  lock.update({ address: 'http://127.0.0.1:3000' })
  const outcome = tryLock(folder)
  expect(outcome).toEqual({ heldBy: { pid: process.pid, startTime: expect.any(String), info: { address: 'http://127.0.0.1:3000' } } })
  expect(lockHolder(folder)?.pid).toBe(process.pid)
  lock.release()
  expect(lockHolder(folder)).toBeUndefined()
  take(folder).release()
})

test('a lock of an ended process is taken, and its drafts are deleted', async () => {
  const folder = join(tempDir(), 'a.lock')
  const holder = runScript(
    `import { tryLock } from 'local/supervisor/lock-file.ts'; say('lock' in tryLock(process.argv[1]) ? 'held' : 'refused'); await ended()`,
    [folder],
  )
  expect(await holder.line()).toBe('held')
  expect(tryLock(folder)).toHaveProperty('heldBy.pid', holder.pid)
  writeFileSync(join(folder, `draft-${holder.pid}-1`), 'half')
  holder.kill('SIGKILL')
  await holder.exited
  take(folder)
  expect(readdirSync(folder)).toEqual(['2'])
})

test.each(['', '{', 'null', '[]', '{"pid":"1"}', '{"pid":1,"startTime":"another life"}'])(
  'a lock file with content %j has no holder',
  (content) => {
    const folder = join(tempDir(), 'a.lock')
    mkdirSync(folder)
    writeFileSync(join(folder, '7'), content)
    expect(lockHolder(folder)).toBeUndefined()
    take(folder)
    expect(readdirSync(folder)).toEqual(['8'])
  },
)

test('release succeeds after the folder was deleted', () => {
  const folder = join(tempDir(), 'a.lock')
  const lock = take(folder)
  rmSync(folder, { recursive: true })
  lock.release()
  expect(lockHolder(folder)).toBeUndefined()
})

test('waitForLock calls onWait once, acquires the lock, and can be aborted', async () => {
  const folder = join(tempDir(), 'a.lock')
  const first = take(folder)
  const seen: number[] = []
  const waiting = waitForLock(folder, { onWait: (holder) => (seen.push(holder.pid), setTimeout(() => first.release(), 100)) })
  const second = await waiting
  expect(seen).toEqual([process.pid])
  const stop = new AbortController()
  await expect(waitForLock(folder, { signal: stop.signal, onWait: () => stop.abort(new Error('called off')) })).rejects.toThrow(
    /aborted|called off/,
  )
  second.release()
})

test('concurrent processes never hold the lock together, even if holders are killed', async () => {
  const dir = tempDir()
  writeFileSync(join(dir, 'count'), '0')
  const fighter = `
    import { readFileSync, writeFileSync } from 'node:fs'
    import { waitForLock } from 'local/supervisor/lock-file.ts'
    const [dir, rounds, dies] = process.argv.slice(1)
    for (let i = 0; i < Number(rounds); i++) {
      const lock = await waitForLock(dir + '/a.lock')
      const seen = Number(readFileSync(dir + '/count', 'utf8'))
      await new Promise((next) => setImmediate(next))
      writeFileSync(dir + '/count', String(seen + 1))
      if (dies === 'dies' && i === Number(rounds) - 1) process.kill(process.pid, 'SIGKILL')
      lock.release()
    }`
  const fighters = ['lives', 'dies', 'dies', 'lives'].map((fate) => runScript(fighter, [dir, '25', fate]))
  await Promise.all(fighters.map((one) => one.exited))
  expect(readFileSync(join(dir, 'count'), 'utf8')).toBe('100')
})

function take(folder: string): Lock {
  const outcome = tryLock(folder)
  if ('heldBy' in outcome) throw new Error(`held by ${outcome.heldBy.pid}`)
  return outcome.lock
}
