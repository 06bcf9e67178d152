// A program of ours as a real process: started from its source file with nothing but environment, ready when its log says so,
// killed by pid. Its folder and pid belong to the run, so that a killed test leaves nothing.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type OwnedProcess, spawnOwned } from '@brokkr/local/supervisor/spawn-owned.ts'
import { compileCache } from './compile-cache.ts'
import { callServers } from './servers/owner/client.ts'
import { waitFor } from './wait-for.ts'

export type ProgramProcess = {
  readonly folder: string
  readonly pid: number
  readonly exited: OwnedProcess['exited']
  kill(signal?: NodeJS.Signals): Promise<void>
  /** SIGTERM and its exit code. */
  stop(): Promise<number | null>
  logTail(lines?: number): string
  /** Everything it wrote. */
  text(): string
  /** Every line of its log that is JSON. */
  lines(): Record<string, unknown>[]
}

/** `main` is a file of the workspace, such as `packages/broker/src/main.ts`, or one outside it by its whole path. */
export async function startProgram(options: {
  name: string
  main: string
  args?: readonly string[]
  nodeFlags?: readonly string[]
  env: Record<string, string>
  folder?: string
}): Promise<ProgramProcess> {
  const folder = options.folder ?? (await callServers('loan.folder', { kind: 'plain' }))
  const main = resolve(fileURLToPath(new URL('../../..', import.meta.url)), options.main)
  const logFile = join(folder, `${options.name}.log`)
  const cached = compileCache()
  const owned = spawnOwned({
    name: options.name,
    command: process.execPath,
    args: [...cached.flags, ...(options.nodeFlags ?? []), main, ...(options.args ?? [])],
    cwd: folder,
    env: { ...cached.env, ...options.env },
    logFile,
  })
  await callServers('loan.note', { folder, processes: [{ pid: owned.pid, startTime: owned.startTime }] })
  return {
    folder,
    pid: owned.pid,
    exited: owned.exited,
    kill: async (signal = 'SIGKILL') => {
      owned.kill(signal)
      await owned.exited
    },
    stop: async () => {
      owned.kill('SIGTERM')
      return (await owned.exited).code
    },
    logTail: (lines) => owned.logTail(lines),
    text: () => formatLine(logFile, owned.logStart),
    lines: () => jsonLines(formatLine(logFile, owned.logStart)),
  }
}

/** The first log line with this message; fails with the end of the log when the program ends or stays silent. */
export async function logLine(program: ProgramProcess, message: string): Promise<Record<string, unknown>> {
  let hasEnded = false
  void program.exited.then(() => (hasEnded = true))
  const find = () => program.lines().find((line) => line['msg'] === message)
  // Asked once more after the end: its last lines may hold the message.
  const match = await waitFor(`log line "${message}"`, () => (hasEnded ? { line: find() } : find() && { line: find() }), {
    limitMs: 300_000,
    onTimeout: () => program.logTail(20),
  })
  if (match.line === undefined) throw new Error(`the program ended without the log line "${message}":\n${program.logTail(20)}`)
  return match.line
}

const formatLine = (logFile: string, start: number): string => readFileSync(logFile).subarray(start).toString('utf8')

function jsonLines(text: string): Record<string, unknown>[] {
  return text.split('\n').flatMap((line) => {
    try {
      return line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : []
    } catch {
      return []
    }
  })
}
