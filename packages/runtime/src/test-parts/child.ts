// Runs a TypeScript program of this folder as a real process, for tests of signals and exit codes.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export type Child = {
  process: ChildProcess
  /** Resolves when the text appears on standard output. */
  printed(text: string): Promise<void>
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string }>
}

const limitMs = 20_000

export function startChild(program: string, args: readonly string[], env: Record<string, string> = {}): Child {
  const file = fileURLToPath(new URL(`./${program}`, import.meta.url))
  const child = spawn(process.execPath, [file, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: limitMs,
  })
  const output = { stdout: '', stderr: '' }
  const waiting = new Map<string, () => void>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text
    for (const [wanted, resolve] of waiting) if (output.stdout.includes(wanted)) resolve()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text))
  const ended: Child['ended'] = new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...output }))
  })
  const printed = (text: string) => {
    const appeared = new Promise<void>((resolve) => (output.stdout.includes(text) ? resolve() : waiting.set(text, resolve)))
    const missed = ended.then(({ stderr, stdout }) =>
      Promise.reject(new Error(`the program ended without printing "${text}"\n${stdout}\n${stderr}`)),
    )
    return Promise.race([appeared, missed])
  }
  return { process: child, printed, ended }
}

/** Node has no call for a named pipe. */
export function makePipe(path: string): void {
  const { status, error } = spawnSync('mkfifo', [path], { timeout: limitMs })
  if (status !== 0) throw error ?? new Error(`mkfifo ${path} ended with ${status}`)
}
