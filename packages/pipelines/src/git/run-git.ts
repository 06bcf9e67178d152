// Runs the git program: no shell, an environment of its own, no hooks, credentials by environment entries and never on a command line.
// Output and time are bounded; at the limit the whole process group is killed.
import { spawn } from 'node:child_process'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

export interface GitRun {
  readonly args: readonly string[]
  /** Settings as git reads them from GIT_CONFIG_COUNT entries; they may hold credentials. */
  readonly config?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string | Uint8Array
  readonly timeoutMs: number
  readonly outputBytesMax?: number
  /** Asked while the program runs; true kills it. */
  readonly isOverLimit?: () => Promise<boolean>
  readonly signal: AbortSignal
}

export interface GitOutput {
  readonly code: number | null
  readonly stdout: Buffer
  readonly stderr: string
  /** Why the program was killed; null: it ended by itself. */
  readonly killedBy: 'timeout' | 'output' | 'limit' | null
}

export interface GitPlace {
  /** An empty directory: nothing of the user's settings is read. */
  readonly home: string
  readonly repository: string
}

const STDERR_BYTES_MAX = 64 * 1024
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024
const LIMIT_EVERY_MS = 100

/** Throws the signal's reason when it is aborted, and when git cannot be started. */
export async function runGit(place: GitPlace, run: GitRun): Promise<GitOutput> {
  run.signal.throwIfAborted()
  const child = spawn('git', [...run.args], { cwd: place.repository, env: environmentOf(place, run), detached: true })
  const ended = Promise.withResolvers<number | null>()
  let killedBy: GitOutput['killedBy'] = null
  const kill = (why: GitOutput['killedBy']) => {
    killedBy ??= why
    killGroup(child.pid)
  }
  const stdout = new Bounded(run.outputBytesMax ?? OUTPUT_BYTES_MAX, () => kill('output'))
  const stderr = new Bounded(STDERR_BYTES_MAX, () => {})
  child.stdout.on('data', (chunk: Buffer) => stdout.add(chunk))
  child.stderr.on('data', (chunk: Buffer) => stderr.add(chunk))
  child.on('error', ended.reject)
  child.on('close', ended.resolve)
  // A program that ends before it has read its input closes the pipe; its exit code says why.
  child.stdin.on('error', () => {})
  child.stdin.end(run.input ?? '')
  const onAbort = () => kill(null)
  run.signal.addEventListener('abort', onAbort, { once: true })
  const timer = setTimeout(() => kill('timeout'), run.timeoutMs)
  const limit = setInterval(() => void run.isOverLimit?.().then((isOver) => isOver && kill('limit')), LIMIT_EVERY_MS)
  try {
    const code = await ended.promise
    if (killedBy !== null || run.signal.aborted) await removeLocks(place.repository)
    run.signal.throwIfAborted()
    return { code, stdout: stdout.content(), stderr: stderr.content().toString('utf8'), killedBy }
  } finally {
    clearTimeout(timer)
    clearInterval(limit)
    run.signal.removeEventListener('abort', onAbort)
  }
}

/** git starts helpers (remote-https, index-pack): all of them end. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It ended meanwhile.
  }
}

/** A killed program leaves its lock files (shallow.lock, refs), and every later run would fail on them. The repository has one user. */
export async function removeLocks(repository: string): Promise<void> {
  const entries = await readdir(repository, { recursive: true, withFileTypes: true }).catch(() => [])
  const locks = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.lock'))
  await Promise.all(locks.map((lock) => rm(join(lock.parentPath, lock.name), { force: true })))
}

const KEPT_VARIABLES = ['PATH', 'HTTPS_PROXY', 'https_proxy', 'NO_PROXY', 'no_proxy', 'SSL_CERT_FILE', 'SSL_CERT_DIR']

function environmentOf(place: GitPlace, { config = {}, env = {} }: GitRun): Record<string, string> {
  const kept = KEPT_VARIABLES.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]))
  const entries = Object.entries({ ...FIXED_CONFIG, ...config })
  return {
    ...Object.fromEntries(kept),
    HOME: place.home,
    XDG_CONFIG_HOME: place.home,
    LC_ALL: 'C',
    GIT_DIR: place.repository,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_COUNT: String(entries.length),
    ...Object.fromEntries(
      entries.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
    ...env,
  }
}

const FIXED_CONFIG: Readonly<Record<string, string>> = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.askPass': '',
  'credential.helper': '',
  'protocol.allow': 'never',
  'protocol.https.allow': 'always',
  'http.followRedirects': 'false',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'fetch.recurseSubmodules': 'false',
  'push.recurseSubmodules': 'no',
  'push.gpgSign': 'false',
}

class Bounded {
  readonly #bytesMax: number
  readonly #onOverflow: () => void
  readonly #chunks: Buffer[] = []
  #bytes = 0

  constructor(bytesMax: number, onOverflow: () => void) {
    this.#bytesMax = bytesMax
    this.#onOverflow = onOverflow
  }

  add(chunk: Buffer): void {
    const room = this.#bytesMax - this.#bytes
    if (chunk.length > room) this.#onOverflow()
    if (room <= 0) return
    this.#chunks.push(chunk.subarray(0, room))
    this.#bytes += Math.min(room, chunk.length)
  }

  content(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}
