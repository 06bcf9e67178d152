// Runs a program such as a compiler or installer to its end, with its output in a file. It ends with this process, on abort or after
// the time limit; an error contains the last lines of its output.
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type OwnedProcess, spawnOwned } from './spawn-owned.ts'

export type RunOptions = {
  name: string
  command: string
  args: readonly string[]
  cwd: string
  env?: Record<string, string>
  logFile: string
  timeoutMs: number
  signal?: AbortSignal
  /** Called for whole lines while the program runs. */
  onLine?: (line: string) => void
  /** Runs with lower priority. */
  isBackground?: boolean
}

/** Output of the program, standard output and standard error. */
export async function runTool(options: RunOptions): Promise<string> {
  options.signal?.throwIfAborted()
  const { name, command, args, cwd, logFile, env } = options
  const tool = spawnOwned({ name, command, args, cwd, logFile, ...(env ? { env } : {}) })
  if (options.isBackground === true) lowerPriority(tool.pid)
  const lines = options.onLine === undefined ? undefined : followLines(tool, options.onLine)
  const limit = AbortSignal.timeout(options.timeoutMs)
  const stop = options.signal === undefined ? limit : AbortSignal.any([limit, options.signal])
  try {
    const exit = await Promise.race([tool.exited, whenAborted(stop)])
    if (exit.code !== 0) throw new Error(`${name} ended with ${exit.code ?? exit.signal}:\n${tool.logTail(10)}`)
    return readFileSync(logFile).subarray(tool.logStart).toString('utf8')
  } catch (error) {
    if (limit.aborted) throw new Error(`${name} did not end within ${options.timeoutMs / 1000} s:\n${tool.logTail(10)}`, { cause: error })
    throw error
  } finally {
    await tool.stop(1000)
    await lines
  }
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // The program has ended, or the system forbids it: the priority stays.
  }
}

async function followLines(tool: OwnedProcess, onLine: (line: string) => void): Promise<void> {
  let at = tool.logStart
  let rest = ''
  for (let isOver = false; !isOver; ) {
    await Promise.race([tool.exited, sleep(200)])
    isOver = !tool.isRunning() // checked before the last read, so that the read includes all output
    const chunk = readFrom(tool.logFile, at)
    at += chunk.length
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  }
}

function readFrom(file: string, at: number): Buffer {
  const fd = openSync(file, 'r')
  try {
    const buffer = Buffer.alloc(256 * 1024)
    return buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, at))
  } finally {
    closeSync(fd)
  }
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const fail = () => reject(signal.reason as Error)
    if (signal.aborted) fail()
    else signal.addEventListener('abort', fail, { once: true })
  })
}
