// Starts a server as a child that does not outlive us: where Linux has setpriv the kernel signals it when we die, however we die.
// A minimal environment, output into a log file whose tail explains a failure.
import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { basename, delimiter, isAbsolute, join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'
import { type BoundedLog, openBoundedLog } from './bounded-log.ts'
import { startTimeOf } from './process-table.ts'

export type SpawnOptions = {
  name: string
  command: string
  args: readonly string[]
  cwd: string
  /** Added to PATH and HOME (= cwd); nothing else of our own environment is passed on. */
  env?: Record<string, string>
  logFile: string
  runAs?: { uid: number; gid: number }
  /** Sent by the kernel when we die; KILL unless told. */
  deathSignal?: 'KILL' | 'QUIT' | 'TERM' | 'INT'
  /** A process group of its own, so that Ctrl-C in a terminal reaches us alone. */
  detached?: boolean
  stdin?: 'ignore' | 'pipe'
}

export type Exit = { code: number | null; signal: NodeJS.Signals | null }

export type OwnedProcess = {
  readonly name: string
  readonly pid: number
  readonly startTime: string
  readonly logFile: string
  /** Where this process's output begins in the log file. */
  readonly logStart: number
  readonly stdin: Writable | null
  readonly exited: Promise<Exit>
  isRunning(): boolean
  /** False when it had ended already. */
  kill(signal: NodeJS.Signals): boolean
  /** TERM, after `graceMs` (10 s) KILL; returns when it has ended. */
  stop(graceMs?: number): Promise<void>
  /** The last lines that this process wrote. */
  logTail(lines?: number): string
}

const logBytesMax = 8 * 1024 * 1024
const logCheckMs = 60_000

/** Call it on the main thread: the kernel ties the death signal to the thread that forks. */
export function spawnOwned(options: SpawnOptions): OwnedProcess {
  if (!isMainThread) throw new Error(`${options.name} must be started from the main thread, it would die with a worker`)
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
    return own(options, child, log)
  } finally {
    log.close()
  }
}

/** Run behind setpriv: if we died before the kernel knew of the death signal, somebody else is the parent by now. The shell gives way to
 *  the command and takes the variables it set with it. */
const unlessOrphaned = 'test "$PPID" = "$0" || exit 0; unset PWD OLDPWD SHLVL; exec "$@"'

/** The command line, wrapped in setpriv where there is one. */
export function spawnArguments(options: SpawnOptions, command: string, setpriv: string | undefined): [string, string[]] {
  if (setpriv === undefined) return [command, [...options.args]]
  const user = options.runAs === undefined ? [] : [`--reuid=${options.runAs.uid}`, `--regid=${options.runAs.gid}`, '--clear-groups']
  const guard = ['/bin/sh', '-c', unlessOrphaned, String(process.pid)]
  return [setpriv, ['--pdeathsig', options.deathSignal ?? 'KILL', ...user, '--', ...guard, command, ...options.args]]
}

/** The executable file a command names, searched in `path` when it has no folder of its own. */
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

/** Only util-linux's: the one in busybox knows no death signal. */
function findSetpriv(path: string): string | undefined {
  if (process.platform !== 'linux') return undefined
  const found = findCommand('setpriv', path)
  return found === undefined || basename(realpathSync(found)) === 'busybox' ? undefined : found
}

function own(options: SpawnOptions, child: ChildProcess, log: BoundedLog): OwnedProcess {
  const exited = new Promise<Exit>((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })))
  // Without a listener a failed spawn would end the whole program; the missing pid below reports it.
  child.on('error', () => {})
  const { pid } = child
  if (pid === undefined) throw new Error(`cannot start ${options.name}: the system refused to run ${options.command} in ${options.cwd}`)
  const trimming = setInterval(() => log.trim(), logCheckMs).unref()
  child.once('exit', () => clearInterval(trimming))
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const kill = (signal: NodeJS.Signals) => isRunning() && child.kill(signal)
  return {
    name: options.name,
    pid,
    startTime: startTimeOf(pid) ?? '',
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
  const late = sleep(limitMs, false, { signal: timer.signal }).catch(() => false)
  const ended = await Promise.race([exited.then(() => true), late])
  timer.abort()
  return ended
}
