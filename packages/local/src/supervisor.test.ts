import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { silentLog } from '@brokkr/runtime/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from './free-ports.ts'
import { isSameProcess, startTimeOf } from './process-table.ts'
import { spawnOwned } from './spawn-owned.ts'
import type { Program } from './supervised-program.ts'
import { createSupervisor, findSupervisor, type Supervisor, type SupervisorOptions } from './supervisor.ts'
import { readState, writeState } from './supervisor-state.ts'
import { runScript } from './test-parts/run-script.ts'
import { tempDir } from './test-parts/temp-dir.ts'

const fast = { baseMs: 5, maxMs: 20, tries: 3, stableMs: 60_000 }

test('a program is ready when its address answers, and is recorded with pid, start time, ports and log', async () => {
  const { dir, supervisor } = open()
  const port = await freePort()
  const status = await supervisor.start(webProgram('broker', port, { env: { GREETING: 'hello' } }))
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('hello')
  expect(status).toMatchObject({ name: 'broker', state: 'ready', restarts: 0, ports: { http: port }, log: join(dir, 'logs', 'broker.log') })
  expect(isSameProcess(status.pid, status.startTime)).toBe(true)
  const { pid, startTime, log } = status
  expect(readState(dir)).toEqual([{ name: 'broker', pid, startTime, ports: { http: port }, log, stopSignal: 'SIGTERM' }])
  expect(statSync(join(dir, 'state.json')).mode & 0o777).toBe(0o600)
  expect(supervisor.running()).toEqual([status])
  await expect(supervisor.start(webProgram('broker', port))).rejects.toThrow('already under supervision')
  await expect(supervisor.start(idleProgram('../agent'))).rejects.toThrow('cannot name a program')
})

test('programs and attached parts stop in reverse order, and nothing stays recorded', async () => {
  const { dir, supervisor } = open()
  const order = join(dir, 'order')
  supervisor.attach({
    name: 'postgres',
    pid: process.pid,
    startTime: startTimeOf(process.pid) ?? '',
    log: 'x',
    stopSignal: 'SIGINT',
    stop: async () => writeFileSync(order, 'postgres\n', { flag: 'a' }),
  })
  for (const name of ['broker', 'agent']) await supervisor.start(noteProgram(name, order))
  expect(readState(dir).map((one) => [one.name, one.stopSignal])).toEqual([
    ['postgres', 'SIGINT'],
    ['broker', 'SIGTERM'],
    ['agent', 'SIGTERM'],
  ])
  await supervisor.stopAll()
  expect(readFileSync(order, 'utf8').trim().split('\n')).toEqual(['agent', 'broker', 'postgres'])
  expect(readState(dir)).toEqual([])
  expect(supervisor.running()).toEqual([])
})

test('one that will not stop does not keep the others running', async () => {
  const { supervisor } = open()
  const { pid } = await supervisor.start(idleProgram('agent'))
  const part = { name: 'stubborn', pid: process.pid, startTime: '', log: 'x' }
  supervisor.attach({ ...part, stop: () => Promise.reject(new Error('it clings')) })
  await expect(supervisor.stopAll()).rejects.toThrow('it clings')
  expect(startTimeOf(pid)).toBeUndefined()
  supervisor.attach({ ...part, stop: () => Promise.resolve() })
})

test('a program that ends before it is ready is an error with the end of its log', async () => {
  const { dir, supervisor } = open()
  const program = { ...idleProgram('broker'), args: ['-e', `console.error('port is taken'); process.exit(7)`], ready: async () => false }
  await expect(supervisor.start(program)).rejects.toThrow(
    /broker did not become ready: it ended first \(exit 7\); the end of .*broker\.log:\nport is taken/,
  )
  expect(supervisor.running()).toEqual([])
  expect(readState(dir)).toEqual([])
})

test('a program that does not get ready in time is stopped', async () => {
  const { supervisor } = open()
  const seen: number[] = []
  const ready = async () => {
    seen.push(...supervisor.running().map((one) => one.pid))
    throw new Error('not yet')
  }
  await expect(supervisor.start({ ...idleProgram('broker'), ready, readyLimitMs: 50 })).rejects.toThrow('not ready after 0.05 s')
  expect(startTimeOf(seen[0] ?? 0)).toBeUndefined()
})

test('a program that dies is started again and recorded under its new pid', async () => {
  const { dir, supervisor } = open()
  const first = await supervisor.start(idleProgram('agent'))
  process.kill(first.pid, 'SIGKILL')
  const second = await waitFor('the restart', () => supervisor.running().find((one) => one.restarts === 1))
  expect(second).toMatchObject({ name: 'agent', state: 'ready', lastExit: { code: null, signal: 'SIGKILL' } })
  expect(second.pid).not.toBe(first.pid)
  expect(readState(dir).map((one) => one.pid)).toEqual([second.pid])
})

test('a program that dies again and again is given up, and said so', async () => {
  const states: string[] = []
  const { supervisor } = open({ onChange: (status) => states.push(`${status.state} ${status.restarts}`) })
  // Once ready it dies soon, so it never earns forgiveness.
  const program = { ...idleProgram('agent'), args: ['-e', 'setTimeout(() => process.exit(1), 50)'] }
  await supervisor.start(program)
  const failed = await waitFor('the end of patience', () => supervisor.running().find((one) => one.state === 'failed'))
  expect(failed).toMatchObject({ restarts: 3, lastExit: { code: 1, signal: null } })
  expect(states.filter((one) => one.startsWith('waiting'))).toEqual(['waiting 0', 'waiting 1', 'waiting 2'])
  expect(startTimeOf(failed.pid)).toBeUndefined()
})

test('a long life forgives earlier deaths', async () => {
  const { supervisor } = open({ restart: { ...fast, tries: 1, stableMs: 0 } })
  await supervisor.start(idleProgram('agent'))
  for (const restarts of [1, 2, 3]) {
    process.kill(supervisor.running()[0]?.pid ?? 0, 'SIGKILL')
    const again = await waitFor(`restart ${restarts}`, () => supervisor.running().find((one) => one.restarts === restarts))
    expect(again.state).toBe('ready')
  }
})

test('a stop while a program waits for its restart leaves nothing behind', async () => {
  const { supervisor } = open({ restart: { ...fast, baseMs: 600_000, maxMs: 600_000 } })
  const { pid } = await supervisor.start(idleProgram('agent'))
  process.kill(pid, 'SIGKILL')
  await waitFor('the wait for a restart', () => supervisor.running()[0]?.state === 'waiting')
  await supervisor.stopAll()
  expect(supervisor.running()).toEqual([])
})

test('a second supervisor on the folder learns of the first, and gets in when it closes', async () => {
  const { dir, supervisor } = open()
  supervisor.announce('http://127.0.0.1:3000')
  const other = { pid: process.pid, startTime: startTimeOf(process.pid), address: 'http://127.0.0.1:3000' }
  expect(createSupervisor({ dir, log: silentLog })).toEqual({ alreadyRunning: other })
  expect(findSupervisor(dir)).toEqual(other)
  await supervisor.close()
  expect(findSupervisor(dir)).toBeUndefined()
  open({ dir })
})

test('what a killed supervisor left is stopped by pid and start time, but for what is to be kept', async () => {
  const dir = tempDir()
  const sleepers = ['postgres', 'broker', 'stranger'].map((name) =>
    spawnOwned({ ...idleProgram(name), cwd: dir, logFile: join(dir, `${name}.log`) }),
  )
  const [kept, left, stranger] = sleepers as [(typeof sleepers)[0], (typeof sleepers)[0], (typeof sleepers)[0]]
  for (const one of sleepers) onTestFinished(() => one.stop())
  const common = { ports: {}, log: 'x', stopSignal: 'SIGTERM' as const }
  writeState(dir, [
    { name: 'postgres', pid: kept.pid, startTime: kept.startTime, ...common },
    { name: 'broker', pid: left.pid, startTime: left.startTime, ...common },
    // Its pid belongs to somebody else by now.
    { name: 'agent', pid: stranger.pid, startTime: 'another life', ...common },
  ])
  const { supervisor } = open({ dir })
  expect(await supervisor.sweep({ keep: ['postgres'] })).toEqual(['broker'])
  expect(await left.exited).toEqual({ code: null, signal: 'SIGTERM' })
  expect([kept.isRunning(), stranger.isRunning()]).toEqual([true, true])
  expect(readState(dir).map((one) => one.name)).toEqual(['postgres'])
  supervisor.attach({ name: 'postgres', pid: kept.pid, startTime: kept.startTime, log: 'x', stop: () => kept.stop() })
  expect(readState(dir)).toHaveLength(1)
  expect(await supervisor.sweep()).toEqual([])
})

test.runIf(process.platform === 'linux')(
  'the programs of a supervisor that is killed are gone, and the next one starts on its folder',
  async () => {
    const dir = tempDir()
    const first = runScript(
      `import { createSupervisor } from 'local/supervisor.ts'
    import { silentLog } from '${import.meta.resolve?.('@brokkr/runtime/log.ts') ?? ''}'
    const { supervisor } = createSupervisor({ dir: process.argv[1], log: silentLog })
    const { pid } = await supervisor.start({ name: 'agent', command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], ready: async () => true })
    say(String(pid)); await ended()`,
      [dir],
    )
    const pid = Number(await first.line())
    expect(createSupervisor({ dir, log: silentLog })).toHaveProperty('alreadyRunning.pid', first.pid)
    first.kill('SIGKILL')
    await waitFor('the program to be gone', () => startTimeOf(pid) === undefined)
    await first.exited
    const { supervisor } = open({ dir })
    expect(await supervisor.sweep()).toEqual([])
    expect(readState(dir)).toEqual([])
    await supervisor.start(idleProgram('agent'))
  },
)

test.each(['', '{', '[]', '{"programs":[{"pid":"1"}, null, 3]}'])('a state file that holds %j counts as empty', (text) => {
  const dir = tempDir()
  writeFileSync(join(dir, 'state.json'), text)
  expect(readState(dir)).toEqual([])
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
