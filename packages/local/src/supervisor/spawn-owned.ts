// Starts a server as a child that ends with this process: with setpriv on Linux, the kernel signals it when this process dies.
// Minimal environment; output goes to a log file, and its tail explains a failure.
import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { basename, delimiter, isAbsolute, join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'
import { type BoundedLog, openBoundedLog } from './bounded-log.ts'
import { readStartTime } from './process-table.ts'

export type SpawnOptions = {
  name: string
  command: string
  args: readonly string[]
  cwd: string
  /** Added to PATH and HOME (= cwd); nothing else is inherited. */
  env?: Record<string, string>
  logFile: string
  runAs?: { uid: number; gid: number }
  /** Sent by the kernel when this process dies; default KILL. */
  deathSignal?: 'KILL' | 'QUIT' | 'TERM' | 'INT'
  /** Starts its own process group, so that Ctrl-C in a terminal reaches only this process. */
  detached?: boolean
  stdin?: 'ignore' | 'pipe'
}

export type Exit = { code: number | null; signal: NodeJS.Signals | null }

export type OwnedProcess = {
  readonly name: string
  readonly pid: number
  readonly startTime: string
  readonly logFile: string
  /** Offset of the output of this process in the log file. */
  readonly logStart: number
  readonly stdin: Writable | null
  readonly exited: Promise<Exit>
  isRunning(): boolean
  /** False if it has ended. */
  kill(signal: NodeJS.Signals): boolean
  /** SIGTERM, after `graceMs` (10 s) SIGKILL; returns when it has ended. */
  stop(graceMs?: number): Promise<void>
  /** The last lines that this process wrote. */
  logTail(lines?: number): string
}

const logBytesMax = 8 * 1024 * 1024
const logCheckMs = 60_000

/** Call it on the main thread: the kernel ties the death signal to the thread that forks. */
export function spawnOwned(options: SpawnOptions): OwnedProcess {
  if (!isMainThread) throw new Error(`${options.name} must be started from the main thread: it would end with a worker thread`)
  const path = process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'
  const command = findCommand(options.command, path)
  if (command === undefined) throw new Error(`cannot start ${options.name}: ${options.command} is missing or not executable`)
  const setpriv = findSetpriv(path)
  const log = openBoundedLog(options.logFile, logBytesMax)
  try {
    const child = spawn(...spawnArguments(options, command, setpriv), {
      cwd: options.cwd,
      env: { PATH: path, HOME: options.cwd, ...options.env },
      detached: options.detached ?? false,
      stdio: [options.stdin ?? 'ignore', log.fd, log.fd],
      ...(setpriv === undefined ? options.runAs : {}),
    })
    return toOwnedProcess(options, child, log)
  } finally {
    log.close()
  }
}

/** Runs after setpriv: if this process died before the death signal was set, the child has another parent and exits. Else the shell
 *  replaces itself by the command, without the variables that it set. */
const orphanCheckScript = 'test "$PPID" = "$0" || exit 0; unset PWD OLDPWD SHLVL; exec "$@"'

/** The command line, wrapped in setpriv if that exists. */
export function spawnArguments(options: SpawnOptions, command: string, setpriv: string | undefined): [string, string[]] {
  if (setpriv === undefined) return [command, [...options.args]]
  const user = options.runAs === undefined ? [] : [`--reuid=${options.runAs.uid}`, `--regid=${options.runAs.gid}`, '--clear-groups']
  const guard = ['/bin/sh', '-c', orphanCheckScript, String(process.pid)]
  return [setpriv, ['--pdeathsig', options.deathSignal ?? 'KILL', ...user, '--', ...guard, command, ...options.args]]
}

/** Finds the executable file of a command; searches `path` unless the command is absolute. */
export function findCommand(command: string, path: string): string | undefined {
  const candidates = isAbsolute(command) ? [command] : path.split(delimiter).map((folder) => join(folder, command))
  return candidates.find((file) => isAbsolute(file) && isExecutable(file))
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** Only setpriv of util-linux: that of busybox does not support death signals. */
function findSetpriv(path: string): string | undefined {
  if (process.platform !== 'linux') return undefined
  const setpriv = findCommand('setpriv', path)
  return setpriv === undefined || basename(realpathSync(setpriv)) === 'busybox' ? undefined : setpriv
}

function toOwnedProcess(options: SpawnOptions, child: ChildProcess, log: BoundedLog): OwnedProcess {
  const exited = new Promise<Exit>((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })))
  // Without a listener a failed spawn would end this process; the missing pid below reports it.
  child.on('error', () => {})
  const { pid } = child
  if (pid === undefined) throw new Error(`cannot start ${options.name}: the system could not run ${options.command} in ${options.cwd}`)
  const trimming = setInterval(() => log.trim(), logCheckMs).unref()
  child.once('exit', () => clearInterval(trimming))
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const kill = (signal: NodeJS.Signals) => isRunning() && child.kill(signal)
  return {
    name: options.name,
    pid,
    startTime: readStartTime(pid) ?? '',
    logFile: options.logFile,
    get logStart() {
      return log.start()
    },
    stdin: child.stdin,
    exited,
    isRunning,
    kill,
    stop: (graceMs = 10_000) => stop({ name: options.name, pid, exited, kill }, graceMs),
    logTail: (lines = 20) => log.tail(lines),
  }
}

async function stop(owned: Pick<OwnedProcess, 'name' | 'pid' | 'exited' | 'kill'>, graceMs: number): Promise<void> {
  owned.kill('SIGTERM')
  if (await endsWithin(owned.exited, graceMs)) return
  owned.kill('SIGKILL')
  if (!(await endsWithin(owned.exited, 30_000))) throw new Error(`${owned.name} (pid ${owned.pid}) did not end 30 s after KILL`)
}

export async function endsWithin(exited: Promise<unknown>, limitMs: number): Promise<boolean> {
  const timer = new AbortController()
  const timeout = sleep(limitMs, false, { signal: timer.signal }).catch(() => false)
  const hasExited = await Promise.race([exited.then(() => true), timeout])
  timer.abort()
  return hasExited
}
