// long: starts and kills whole runners
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { isSameProcess, killRecorded, type RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import { expect, onTestFinished, test } from 'vitest'
import { waitFor } from '../../wait-for.ts'
import { emptyDatabase } from '../postgres.ts'
import { callServers } from './client.ts'
import type { CallOutput } from './protocol.ts'
import { spawnServersOwner } from './start-owner.ts'
import { identity } from './test-run.ts'

type Held = CallOutput<'status'> & { runner: ChildProcess; owner: RecordedProcess; note: string }

test('several requests at once share one server', async () => {
  const databases = await Promise.all(Array.from({ length: 5 }, () => emptyDatabase()))
  const { processes } = await callServers('status', {})
  expect(new Set(databases.map(({ url, name }) => url.replace(name, ''))).size).toBe(1)
  expect(processes.filter(lives).length).toBeGreaterThan(0)
})

// At the same time: runners of one machine must not meet.
test.concurrent.for(['SIGKILL', 'SIGINT', 'SIGTERM'] as const)(
  '%s to the real test runner leaves no server, no worker, no folder and no note',
  async (signal, { onTestFinished: onFinished }) => {
    const held = await holdByRunner(onFinished)
    expect(held.processes.map(lives)).toEqual([true, true, true])
    held.runner.kill(signal)
    expect(await left(held)).toEqual([])
  },
)

test('an orderly end leaves nothing either, and returns when that is so', async () => {
  const held = await holdServers()
  const ended = once(held.runner, 'exit')
  held.runner.stdin?.write('\n')
  expect(await ended).toEqual([0, null])
  expect(leftNow(held)).toEqual([])
})

test('an owner stopped by a signal cleans up', async () => {
  const held = await holdServers()
  killRecorded(held.owner, 'SIGTERM')
  expect(await left(held)).toEqual([])
})

test('the next run cleans up after a killed owner and does not touch a live run', async () => {
  const living = await holdServers()
  const dead = await holdServers()
  killRecorded(dead.owner, 'SIGKILL')
  await waitFor('the owner to be gone', () => !lives(dead.owner))
  const next = await spawnServersOwner()
  expect(await left(dead)).toEqual([])
  expect([...living.processes, living.owner].every(lives)).toBe(true)
  expect(living.folders.every(existsSync)).toBe(true)
  await next.stop()
})

async function holdByRunner(onFinished: typeof onTestFinished): Promise<Held> {
  const folder = await mkdtemp(join(tmpdir(), 'brokkr-runner-'))
  const file = join(folder, 'status.json')
  const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
  const config = fileURLToPath(new URL('./fixtures/vitest.config.ts', import.meta.url))
  const environment = Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST'))
  const env = { ...Object.fromEntries(environment), BROKKR_STATUS_FILE: file }
  const runner = spawn(process.execPath, [vitest, 'run', '--config', config], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  onFinished(async () => {
    runner.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  await waitFor('the inner runner to have servers', () => existsSync(file))
  return describeHeld(runner, JSON.parse(await readFile(file, 'utf8')) as CallOutput<'status'>)
}

async function holdServers(): Promise<Held> {
  const program = fileURLToPath(new URL('./fixtures/hold-servers.ts', import.meta.url))
  const runner = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void runner.kill('SIGKILL'))
  const [line] = (await once(createInterface(runner.stdout), 'line')) as [string]
  return describeHeld(runner, JSON.parse(line) as CallOutput<'status'>)
}

function describeHeld(runner: ChildProcess, status: CallOutput<'status'>): Held {
  const id = status.folders[0]?.slice(-12)
  return {
    ...status,
    runner,
    owner: identity(status.pid),
    note: join(tmpdir(), `brokkr-test-runs-${process.getuid?.() ?? 0}`, `${id}.json`),
  }
}

/** What is still there after a generous while: nothing, if all is well. */
async function left(held: Held): Promise<unknown[]> {
  await waitFor('everything of the killed run to go', () => leftNow(held).length === 0).catch(() => undefined)
  return leftNow(held)
}

function leftNow(held: Held): unknown[] {
  return [...[held.owner, ...held.processes].filter(lives), ...[held.note, ...held.folders].filter(existsSync)]
}

function lives({ pid, startTime }: RecordedProcess): boolean {
  return isSameProcess(pid, startTime)
}
