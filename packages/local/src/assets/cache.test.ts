import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runScript } from '../test-parts/run-script.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { cacheDir, ensureEntry, entryPath } from './cache.ts'

test.each([
  [{}, join(homedir(), '.cache', 'brokkr')],
  [{ BROKKR_CACHE: '' }, join(homedir(), '.cache', 'brokkr')],
  [{ BROKKR_CACHE: '/var/cache/brokkr' }, '/var/cache/brokkr'],
  [{ BROKKR_CACHE: 'here' }, join(process.cwd(), 'here')],
])('the environment %j selects the cache directory %s', (env, expected) => {
  expect(cacheDir(env)).toBe(expected)
})

test.each(['', '.', '..', '../x', '/etc', 'a/../b', 'a//b', 'a/', '.hidden', 'a\0b', 'a b'])('the cache key %j is rejected', (key) => {
  expect(() => entryPath('/cache', key)).toThrow('is not a valid name of a cache entry')
})

test('an entry is filled once and visible only after the fill is complete', async () => {
  const cache = tempDir()
  let fills = 0
  const fill = async (folder: string) => {
    fills += 1
    expect(existsSync(join(cache, 'kube', 'v1.36.4'))).toBe(false)
    writeFileSync(join(folder, 'etcd'), 'program')
  }
  const [first, second] = await Promise.all([ensureEntry(cache, 'kube/v1.36.4', fill), ensureEntry(cache, 'kube/v1.36.4', fill)])
  expect(first).toBe(join(cache, 'kube', 'v1.36.4'))
  expect(second).toBe(first)
  expect(await ensureEntry(cache, 'kube/v1.36.4', fill)).toBe(first)
  expect(fills).toBe(1)
  expect(readFileSync(join(first, 'etcd'), 'utf8')).toBe('program')
})

test('a failed fill leaves no files, and the next fill succeeds', async () => {
  const cache = tempDir()
  const failing = ensureEntry(cache, 'tool', async (folder) => {
    writeFileSync(join(folder, 'half'), '')
    throw new Error('connection lost')
  })
  await expect(failing).rejects.toThrow('connection lost')
  expect(readdirSync(cache)).toEqual(['tool.lock'])
  await ensureEntry(cache, 'tool', async (folder) => writeFileSync(join(folder, 'whole'), ''))
  expect(readdirSync(join(cache, 'tool'))).toEqual(['whole'])
})

test('an aborted fill leaves no files', async () => {
  const cache = tempDir()
  const stop = new AbortController()
  const filling = ensureEntry(cache, 'tool', async (_folder, signal) => stop.abort(new Error(`aborted: ${signal.aborted}`)), {
    signal: stop.signal,
  })
  await expect(filling).rejects.toThrow('aborted: false')
  expect(readdirSync(cache)).toEqual(['tool.lock'])
})

const filler = `
  import { writeFileSync } from 'node:fs'
  import { ensureEntry } from 'local/assets/cache.ts'
  const [cache, key] = process.argv.slice(1)
  const entry = await ensureEntry(cache, key, async (folder) => {
    writeFileSync(folder + '/by', String(process.pid))
    say('filling')
    await ended()
  }, { onWait: (holder) => say('waiting for ' + holder.pid) })
  say(entry)`

test('a second process waits for the process that fills the entry', async () => {
  const cache = tempDir()
  const first = runScript(filler, [cache, 'tool'])
  expect(await first.line()).toBe('filling')
  const second = runScript(filler, [cache, 'tool'])
  expect(await second.line()).toBe(`waiting for ${first.pid}`)
  first.release()
  expect(await first.line()).toBe(join(cache, 'tool'))
  expect(await second.line()).toBe(join(cache, 'tool'))
  expect(readFileSync(join(cache, 'tool', 'by'), 'utf8')).toBe(String(first.pid))
})

test('a waiting process fills the entry after the filling process is killed', async () => {
  const cache = tempDir()
  mkdirSync(join(cache, 'tool-of-another-name.tmp-x'))
  const first = runScript(filler, [cache, 'tool'])
  expect(await first.line()).toBe('filling')
  const second = runScript(filler, [cache, 'tool'])
  await second.line()
  first.kill('SIGKILL')
  expect(await second.line()).toBe('filling')
  expect(existsSync(join(cache, 'tool'))).toBe(false)
  second.release()
  await second.line()
  expect(readFileSync(join(cache, 'tool', 'by'), 'utf8')).toBe(String(second.pid))
  expect(readdirSync(cache).toSorted()).toEqual(['tool', 'tool-of-another-name.tmp-x', 'tool.lock'])
})
