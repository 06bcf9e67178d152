import { execFileSync } from 'node:child_process'
import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { runScript } from '../test-parts/run-script.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { isSameProcess, readStartTime } from './process-table.ts'
import { endsWithin, findCommand, type SpawnOptions, spawnArguments, spawnOwned } from './spawn-owned.ts'

const node = (code: string, extra: Partial<SpawnOptions> = {}): SpawnOptions => {
  const cwd = extra.cwd ?? tempDir()
  return { name: 'it', command: process.execPath, args: ['-e', code], cwd, logFile: join(cwd, 'logs', 'it.log'), ...extra }
}

test('a process gets a minimal environment, writes to its log and reports its exit', async () => {
  const options = node('console.log(JSON.stringify(process.env)); console.error(process.cwd()); process.exitCode = 3', {
    env: { GREETING: 'hello' },
  })
  const it = spawnOwned(options)
  expect(await it.exited).toEqual({ code: 3, signal: null })
  const [env, cwd] = it.logTail().split('\n')
  expect(JSON.parse(env ?? '')).toEqual({ PATH: process.env['PATH'], HOME: options.cwd, GREETING: 'hello' })
  expect(cwd).toBe(options.cwd)
  expect(statSync(options.logFile).mode & 0o777).toBe(0o600)
  expect(it.isRunning()).toBe(false)
  expect(it.kill('SIGTERM')).toBe(false)
  await it.stop()
})

test('a running process has the start time of its pid', async () => {
  const it = spawnOwned(node('setInterval(() => {}, 1000)'))
  expect(it.isRunning()).toBe(true)
  expect(isSameProcess(it.pid, it.startTime)).toBe(true)
  await it.stop()
  expect(await it.exited).toEqual({ code: null, signal: 'SIGTERM' })
  expect(isSameProcess(it.pid, it.startTime)).toBe(false)
})

test('a process that ignores SIGTERM is killed after the grace period', async () => {
  const it = spawnOwned(node(`process.on('SIGTERM', () => {}); console.log('ready'); setInterval(() => {}, 1000)`))
  await waitFor('its first line', () => it.logTail() === 'ready')
  await it.stop(50)
  expect(await it.exited).toEqual({ code: null, signal: 'SIGKILL' })
})

test('a process can read from a pipe on standard input', async () => {
  const it = spawnOwned(node(`process.stdin.on('end', () => console.log('end')).resume()`, { stdin: 'pipe' }))
  it.stdin?.end()
  expect(await it.exited).toEqual({ code: 0, signal: null })
  expect(it.logTail()).toBe('end')
})

test('the log tail shows only this process, and a large log is moved', async () => {
  const cwd = tempDir()
  const logFile = join(cwd, 'it.log')
  writeFileSync(logFile, 'old\n')
  const second = spawnOwned(node(`console.log('new')`, { cwd, logFile }))
  await second.exited
  expect(second.logTail()).toBe('new')
  expect(readFileSync(logFile, 'utf8')).toBe('old\nnew\n')
  truncateSync(logFile, 9 * 1024 * 1024)
  await spawnOwned(node(`console.log('newer')`, { cwd, logFile })).exited
  expect(statSync(logFile).size).toBe(6)
  expect(statSync(`${logFile}.1`).size).toBe(9 * 1024 * 1024)
})

test('a missing or non-executable command is rejected with its name', () => {
  expect(() => spawnOwned(node('', { command: '/nowhere/etcd' }))).toThrow('cannot start it: /nowhere/etcd is missing or not executable')
  expect(() => spawnOwned(node('', { command: 'no-such-program' }))).toThrow('no-such-program is missing')
  expect(() => spawnOwned(node('', { command: tempDir() }))).toThrow('is missing or not executable')
  expect(() => spawnOwned({ ...node(''), cwd: '/nowhere' })).toThrow('/nowhere')
})

test.each([
  [{}, ['--pdeathsig', 'KILL', '--']],
  [{ deathSignal: 'QUIT' as const }, ['--pdeathsig', 'QUIT', '--']],
  [{ runAs: { uid: 7, gid: 8 } }, ['--pdeathsig', 'KILL', '--reuid=7', '--regid=8', '--clear-groups', '--']],
])('the options %j wrap the command line in setpriv', (extra, expected) => {
  const options = { ...node(''), args: ['a b', '$x'], ...extra }
  const [command, args] = spawnArguments(options, '/bin/x', '/usr/bin/setpriv')
  expect([command, ...args.slice(0, expected.length)]).toEqual(['/usr/bin/setpriv', ...expected])
  expect(args.slice(-4)).toEqual([String(process.pid), '/bin/x', 'a b', '$x'])
  expect(spawnArguments(options, '/bin/x', undefined)).toEqual(['/bin/x', ['a b', '$x']])
})

test('findCommand searches the path and never the working directory', () => {
  expect(findCommand(process.execPath, '')).toBe(process.execPath)
  expect(findCommand('node', '/nowhere:/proc/self')).toBeUndefined()
  expect(findCommand('package.json', '.')).toBeUndefined()
})

test('endsWithin returns false after the limit', async () => {
  expect(await endsWithin(Promise.resolve(), 60_000)).toBe(true)
  expect(await endsWithin(new Promise(() => {}), 10)).toBe(false)
})

test('a process runs as the requested user, with and without setpriv', async () => {
  const path = process.env['PATH'] ?? ''
  onTestFinished(() => void (process.env['PATH'] = path))
  const given = process.getuid?.() === 0 ? { runAs: { uid: 4242, gid: 4343 } } : {}
  for (const PATH of [path, '/nowhere']) {
    process.env['PATH'] = PATH
    // A program of the system: the workspace may lie below a folder that this user cannot enter.
    const it = spawnOwned({ ...node('', given), command: findCommand('id', path)!, args: [] })
    await it.exited
    expect(it.logTail()).toMatch(
      new RegExp(`^uid=${given.runAs?.uid ?? process.getuid?.()}\\b.* gid=${given.runAs?.gid ?? process.getgid?.()}\\b`),
    )
  }
})

// Elsewhere the kernel has no such signal; the next start finds what is left by its record.
test.runIf(process.platform === 'linux')('a process ends with its killed parent, even in its own group', async () => {
  const cwd = tempDir()
  const parent = runScript(
    `import { spawnOwned } from 'local/supervisor/spawn-owned.ts'
    const cwd = process.argv[1]
    for (const detached of [true, false]) {
      const it = spawnOwned({ name: 'sleeper', command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], cwd, logFile: cwd + '/log', detached })
      say(JSON.stringify([it.pid, it.startTime]))
    }
    await ended()`,
    [cwd],
  )
  const children = [JSON.parse(await parent.line()), JSON.parse(await parent.line())] as [number, string][]
  for (const [pid, startTime] of children) expect(isSameProcess(pid, startTime)).toBe(true)
  parent.kill('SIGKILL')
  await waitFor('both children to be gone', () => children.every(([pid]) => readStartTime(pid) === undefined))
})

test.runIf(process.platform === 'linux')('a process exits if its parent died before the death signal was set', async () => {
  const cwd = tempDir()
  const real = findCommand('setpriv', process.env['PATH'] ?? '')!
  // As slow as on a machine that is busy: the parent is long gone when it runs.
  writeFileSync(join(cwd, 'setpriv'), `#!/bin/sh\nread line < ${cwd}/go\nexec ${real} "$@"\n`, { mode: 0o755 })
  execFileSync('mkfifo', [join(cwd, 'go')])
  const parent = runScript(
    `import { spawnOwned } from 'local/supervisor/spawn-owned.ts'
    const cwd = process.argv[1]
    process.env.PATH = cwd + ':' + process.env.PATH
    const it = spawnOwned({ name: 'sleeper', command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], cwd, logFile: cwd + '/log' })
    say(JSON.stringify([it.pid, it.startTime]))
    process.kill(process.pid, 'SIGKILL')`,
    [cwd],
  )
  const [pid, startTime] = JSON.parse(await parent.line()) as [number, string]
  onTestFinished(() => void (isSameProcess(pid, startTime) && process.kill(pid, 'SIGKILL')))
  await parent.exited
  writeFileSync(join(cwd, 'go'), 'now\n')
  await waitFor('it to be gone', () => !isSameProcess(pid, startTime))
})
