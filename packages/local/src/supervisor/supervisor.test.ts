import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { runScript } from '../test-parts/run-script.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { freePort } from './free-ports.ts'
import { isSameProcess, readStartTime } from './process-table.ts'
import { spawnOwned } from './spawn-owned.ts'
import type { Program } from './supervised-program.ts'
import { createSupervisor, findSupervisor, type Supervisor, type SupervisorOptions } from './supervisor.ts'
import { readSupervisorState, writeSupervisorState } from './supervisor-state.ts'

const fast = { baseMs: 5, maxMs: 20, attemptsMax: 3, stableMs: 60_000 }

test('a ready program is recorded with pid, start time, ports and log', async () => {
  const { dir, supervisor } = open()
  const port = await freePort()
  const status = await supervisor.start(webProgram('broker', port, { env: { GREETING: 'hello' } }))
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('hello')
  expect(status).toMatchObject({ name: 'broker', state: 'ready', restarts: 0, ports: { http: port }, log: join(dir, 'logs', 'broker.log') })
  expect(isSameProcess(status.pid, status.startTime)).toBe(true)
  const { pid, startTime, log } = status
  expect(readSupervisorState(dir)).toEqual([{ name: 'broker', pid, startTime, ports: { http: port }, log, stopSignal: 'SIGTERM' }])
  expect(statSync(join(dir, 'state.json')).mode & 0o777).toBe(0o600)
  expect(supervisor.running()).toEqual([status])
  await expect(supervisor.start(webProgram('broker', port))).rejects.toThrow('already supervised')
  await expect(supervisor.start(idleProgram('../agent'))).rejects.toThrow('is not a valid program name')
})

test('stopAll stops programs and attached parts in reverse order', async () => {
  const { dir, supervisor } = open()
  const order = join(dir, 'order')
  supervisor.attach({
    name: 'postgres',
    pid: process.pid,
    startTime: readStartTime(process.pid) ?? '',
    log: 'x',
    stopSignal: 'SIGINT',
    stop: async () => writeFileSync(order, 'postgres\n', { flag: 'a' }),
  })
  for (const name of ['broker', 'agent']) await supervisor.start(noteProgram(name, order))
  expect(readSupervisorState(dir).map((one) => [one.name, one.stopSignal])).toEqual([
    ['postgres', 'SIGINT'],
    ['broker', 'SIGTERM'],
    ['agent', 'SIGTERM'],
  ])
  await supervisor.stopAll()
  expect(readFileSync(order, 'utf8').trim().split('\n')).toEqual(['agent', 'broker', 'postgres'])
  expect(readSupervisorState(dir)).toEqual([])
  expect(supervisor.running()).toEqual([])
})

test('stopAll stops the other programs if one does not stop', async () => {
  const { supervisor } = open()
  const { pid } = await supervisor.start(idleProgram('agent'))
  const part = { name: 'stubborn', pid: process.pid, startTime: '', log: 'x' }
  supervisor.attach({ ...part, stop: () => Promise.reject(new Error('it clings')) })
  await expect(supervisor.stopAll()).rejects.toThrow('it clings')
  expect(readStartTime(pid)).toBeUndefined()
  supervisor.attach({ ...part, stop: () => Promise.resolve() })
})

test('start fails with the end of the log if the program exits before it is ready', async () => {
  const { dir, supervisor } = open()
  const program = { ...idleProgram('broker'), args: ['-e', `console.error('port is taken'); process.exit(7)`], ready: async () => false }
  await expect(supervisor.start(program)).rejects.toThrow(
    /broker did not become ready: it exited \(exit 7\); the end of .*broker\.log:\nport is taken/,
  )
  expect(supervisor.running()).toEqual([])
  expect(readSupervisorState(dir)).toEqual([])
})

test('a program that is not ready in time is stopped', async () => {
  const { supervisor } = open()
  const seen: number[] = []
  const ready = async () => {
    seen.push(...supervisor.running().map((one) => one.pid))
    throw new Error('not yet')
  }
  await expect(supervisor.start({ ...idleProgram('broker'), ready, readyLimitMs: 50 })).rejects.toThrow('not ready after 0.05 s')
  expect(readStartTime(seen[0] ?? 0)).toBeUndefined()
})

test('an exited program is restarted and recorded with its new pid', async () => {
  const { dir, supervisor } = open()
  const first = await supervisor.start(idleProgram('agent'))
  process.kill(first.pid, 'SIGKILL')
  const second = await waitFor('the restart', () => supervisor.running().find((one) => one.restarts === 1))
  expect(second).toMatchObject({ name: 'agent', state: 'ready', lastExit: { code: null, signal: 'SIGKILL' } })
  expect(second.pid).not.toBe(first.pid)
  expect(readSupervisorState(dir).map((one) => one.pid)).toEqual([second.pid])
})

test('a program is reported as failed after too many consecutive exits', async () => {
  const states: string[] = []
  const { supervisor } = open({ onChange: (status) => states.push(`${status.state} ${status.restarts}`) })
  // It exits before stableMs, so the count of exits is never reset.
  const program = { ...idleProgram('agent'), args: ['-e', 'setTimeout(() => process.exit(1), 50)'] }
  await supervisor.start(program)
  const failed = await waitFor('the program to fail', () => supervisor.running().find((one) => one.state === 'failed'))
  expect(failed).toMatchObject({ restarts: 3, lastExit: { code: 1, signal: null } })
  expect(states.filter((one) => one.startsWith('waiting'))).toEqual(['waiting 0', 'waiting 1', 'waiting 2'])
  expect(readStartTime(failed.pid)).toBeUndefined()
})

test('restart attempts reset after stableMs', async () => {
  const { supervisor } = open({ restart: { ...fast, attemptsMax: 1, stableMs: 0 } })
  await supervisor.start(idleProgram('agent'))
  for (const restarts of [1, 2, 3]) {
    process.kill(supervisor.running()[0]?.pid ?? 0, 'SIGKILL')
    const again = await waitFor(`restart ${restarts}`, () => supervisor.running().find((one) => one.restarts === restarts))
    expect(again.state).toBe('ready')
  }
})

test('a stop during the restart pause leaves no process', async () => {
  const { supervisor } = open({ restart: { ...fast, baseMs: 600_000, maxMs: 600_000 } })
  const { pid } = await supervisor.start(idleProgram('agent'))
  process.kill(pid, 'SIGKILL')
  await waitFor('the wait for a restart', () => supervisor.running()[0]?.state === 'waiting')
  await supervisor.stopAll()
  expect(supervisor.running()).toEqual([])
})

test('a second supervisor is rejected until the first one closes', async () => {
  const { dir, supervisor } = open()
  supervisor.announce('http://127.0.0.1:3000')
  const other = { pid: process.pid, startTime: readStartTime(process.pid), address: 'http://127.0.0.1:3000' }
  expect(createSupervisor({ dir, log: silentLog })).toEqual({ alreadyRunning: other })
  expect(findSupervisor(dir)).toEqual(other)
  await supervisor.close()
  expect(findSupervisor(dir)).toBeUndefined()
  open({ dir })
})

test('sweep stops programs of a killed supervisor by pid and start time, except kept names', async () => {
  const dir = tempDir()
  const sleepers = ['postgres', 'broker', 'stranger'].map((name) =>
    spawnOwned({ ...idleProgram(name), cwd: dir, logFile: join(dir, `${name}.log`) }),
  )
  const [kept, left, stranger] = sleepers as [(typeof sleepers)[0], (typeof sleepers)[0], (typeof sleepers)[0]]
  for (const one of sleepers) onTestFinished(() => one.stop())
  const common = { ports: {}, log: 'x', stopSignal: 'SIGTERM' as const }
  writeSupervisorState(dir, [
    { name: 'postgres', pid: kept.pid, startTime: kept.startTime, ...common },
    { name: 'broker', pid: left.pid, startTime: left.startTime, ...common },
    // The pid now belongs to another process.
    { name: 'agent', pid: stranger.pid, startTime: 'another life', ...common },
  ])
  const { supervisor } = open({ dir })
  expect(await supervisor.sweep({ keep: ['postgres'] })).toEqual(['broker'])
  expect(await left.exited).toEqual({ code: null, signal: 'SIGTERM' })
  expect([kept.isRunning(), stranger.isRunning()]).toEqual([true, true])
  expect(readSupervisorState(dir).map((one) => one.name)).toEqual(['postgres'])
  supervisor.attach({ name: 'postgres', pid: kept.pid, startTime: kept.startTime, log: 'x', stop: () => kept.stop() })
  expect(readSupervisorState(dir)).toHaveLength(1)
  expect(await supervisor.sweep()).toEqual([])
})

test.runIf(process.platform === 'linux')('programs end with their killed supervisor, and the next one starts in its folder', async () => {
  const dir = tempDir()
  const first = runScript(
    `import { createSupervisor } from 'local/supervisor/supervisor.ts'
    import { silentLog } from '${import.meta.resolve?.('@brokkr/runtime/logging/log.ts') ?? ''}'
    const { supervisor } = createSupervisor({ dir: process.argv[1], log: silentLog })
    const { pid } = await supervisor.start({ name: 'agent', command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], ready: async () => true })
    say(String(pid)); await ended()`,
    [dir],
  )
  const pid = Number(await first.line())
  expect(createSupervisor({ dir, log: silentLog })).toHaveProperty('alreadyRunning.pid', first.pid)
  first.kill('SIGKILL')
  await waitFor('the program to be gone', () => readStartTime(pid) === undefined)
  await first.exited
  const { supervisor } = open({ dir })
  expect(await supervisor.sweep()).toEqual([])
  expect(readSupervisorState(dir)).toEqual([])
  await supervisor.start(idleProgram('agent'))
})

test.each(['', '{', '[]', '{"programs":[{"pid":"1"}, null, 3]}'])('a state file with %j is treated as empty', (text) => {
  const dir = tempDir()
  writeFileSync(join(dir, 'state.json'), text)
  expect(readSupervisorState(dir)).toEqual([])
  expect(existsSync(join(dir, 'supervisor.lock'))).toBe(false)
})

function open(options: Partial<SupervisorOptions> = {}): { dir: string; supervisor: Supervisor } {
  const dir = options.dir ?? tempDir()
  const outcome = createSupervisor({ log: silentLog, restart: fast, ...options, dir })
  if ('alreadyRunning' in outcome) throw new Error(`supervised by ${outcome.alreadyRunning.pid}`)
  onTestFinished(() => outcome.supervisor.close())
  return { dir, supervisor: outcome.supervisor }
}

function idleProgram(name: string): Program {
  return { name, command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], ready: async () => true }
}

function webProgram(name: string, port: number, extra: Partial<Program> = {}): Program {
  const code = `require('node:http').createServer((q, a) => a.end(process.env.GREETING)).listen(${port}, '127.0.0.1')`
  return { ...idleProgram(name), args: ['-e', code], ports: { http: port }, ready: `http://127.0.0.1:${port}/readyz`, ...extra }
}

/** Writes its name to a file when it is asked to end. */
function noteProgram(name: string, file: string): Program {
  const code = `process.on('SIGTERM', () => { fs.appendFileSync(${JSON.stringify(file)}, '${name}\\n'); process.exit(0) })
    setInterval(() => {}, 1000); fs.writeFileSync(${JSON.stringify(`${file}-${name}`)}, '')`
  return { ...idleProgram(name), args: ['-e', code], ready: async () => existsSync(`${file}-${name}`) }
}
