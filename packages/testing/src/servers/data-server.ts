// A data server for tests: started in its own folder, waited for by its own signal, its log kept for the message of a failure, killed
// and started again on command. It dies with the process that started it.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readTail } from '@brokkr/local/supervisor/log-tail.ts'
import type { RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import { waitUntilReady } from '@brokkr/local/supervisor/ready-probe.ts'
import { type OwnedProcess, spawnOwned } from '@brokkr/local/supervisor/spawn-owned.ts'

export type DataServerOptions = {
  name: string
  command: string
  args: readonly string[]
  dir: string
  env?: Record<string, string>
  /** An address that responds with 2xx, a text in its output, or a function that returns true. */
  ready: { url: string } | { printed: string } | { check: () => Promise<boolean> }
  signal?: AbortSignal
}

export type DataServer = {
  readonly process: RecordedProcess
  isRunning(): boolean
  logTail(lines?: number): string
  /** Returns when the process is gone. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again after a kill, on the same folder; returns when it is ready. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** A start took up to 100 s on a machine with ten times as much to do as it has cores. */
const startLimitMs = 300_000

export async function startDataServer(options: DataServerOptions): Promise<DataServer> {
  await mkdir(options.dir, { recursive: true })
  let running = await launch(options)
  const server: DataServer = {
    get process() {
      return { pid: running.pid, startTime: running.startTime }
    },
    isRunning: () => running.isRunning(),
    logTail: (lines = 40) => running.logTail(lines),
    async kill(signal) {
      running.kill(signal)
      await running.exited
    },
    async start() {
      if (!running.isRunning()) running = await launch(options)
    },
    stop: () => running.stop(30_000),
  }
  return server
}

async function launch(options: DataServerOptions): Promise<OwnedProcess> {
  const { name, command, args, dir, ready } = options
  const env = options.env === undefined ? {} : { env: options.env }
  const child = spawnOwned({ name, command, args, cwd: dir, logFile: join(dir, 'server.log'), ...env })
  const isPrinted = async () => 'printed' in ready && readTail(child.logFile, { lines: 400, from: child.logStart }).includes(ready.printed)
  const signal = options.signal ?? new AbortController().signal
  try {
    const probe = 'url' in ready ? ready.url : 'check' in ready ? ready.check : isPrinted
    if (await waitUntilReady(probe, { isRunning: () => child.isRunning(), limitMs: startLimitMs, signal })) return child
    throw new Error('it ended')
  } catch (cause) {
    await child.stop(1_000)
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`${name} did not start in ${dir}: ${reason}; the end of its log:\n${child.logTail(30)}`, { cause })
  }
}
