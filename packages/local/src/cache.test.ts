import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cacheDir, entryPath, fillOnce } from './cache.ts'
import { runScript } from './test-parts/run-script.ts'
import { tempDir } from './test-parts/temp-dir.ts'

test.each([
  [{}, join(homedir(), '.cache', 'brokkr')],
  [{ BROKKR_CACHE: '' }, join(homedir(), '.cache', 'brokkr')],
  [{ BROKKR_CACHE: '/var/cache/brokkr' }, '/var/cache/brokkr'],
  [{ BROKKR_CACHE: 'here' }, join(process.cwd(), 'here')],
])('with the environment %j the cache is %s', (env, expected) => {
  expect(cacheDir(env)).toBe(expected)
})

test.each(['', '.', '..', '../x', '/etc', 'a/../b', 'a//b', 'a/', '.hidden', 'a\0b', 'a b'])('%j is no name of an entry', (key) => {
  expect(() => entryPath('/cache', key)).toThrow('is no name of a cache entry')
})

test('an entry is filled once, in place only when complete, and used afterwards', async () => {
  const cache = tempDir()
  let fills = 0
  const fill = async (folder: string) => {
    fills += 1
    expect(existsSync(join(cache, 'kube', 'v1.36.4'))).toBe(false)
    writeFileSync(join(folder, 'etcd'), 'program')
  }
  const [first, second] = await Promise.all([fillOnce(cache, 'kube/v1.36.4', fill), fillOnce(cache, 'kube/v1.36.4', fill)])
  expect(first).toBe(join(cache, 'kube', 'v1.36.4'))
  expect(second).toBe(first)
  expect(await fillOnce(cache, 'kube/v1.36.4', fill)).toBe(first)
  expect(fills).toBe(1)
  expect(readFileSync(join(first, 'etcd'), 'utf8')).toBe('program')
})

test('a fill that fails leaves nothing, and the next one may try', async () => {
  const cache = tempDir()
  const failing = fillOnce(cache, 'tool', async (folder) => {
    writeFileSync(join(folder, 'half'), '')
    throw new Error('connection lost')
  })
  await expect(failing).rejects.toThrow('connection lost')
  expect(readdirSync(cache)).toEqual(['tool.lock'])
  await fillOnce(cache, 'tool', async (folder) => writeFileSync(join(folder, 'whole'), ''))
  expect(readdirSync(join(cache, 'tool'))).toEqual(['whole'])
})

test('a fill that is called off leaves nothing', async () => {
  const cache = tempDir()
  const stop = new AbortController()
  const filling = fillOnce(cache, 'tool', async (_folder, signal) => stop.abort(new Error(`aborted: ${signal.aborted}`)), {
    signal: stop.signal,
  })
  await expect(filling).rejects.toThrow('aborted: false')
  expect(readdirSync(cache)).toEqual(['tool.lock'])
})

const filler = `
  import { writeFileSync } from 'node:fs'
  import { fillOnce } from 'local/cache.ts'
  const [cache, key] = process.argv.slice(1)
  const entry = await fillOnce(cache, key, async (folder) => {
    writeFileSync(folder + '/by', String(process.pid))
    say('filling')
    await ended()
  }, { onWait: (holder) => say('waiting for ' + holder.pid) })
  say(entry)`

test('of two processes one fills and the other waits for it', async () => {
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

test('a filler that is killed leaves nothing that counts, and whoever waited fills', async () => {
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
