// Runs a program for a script: its output is kept for the failure message, it hears the signals that we get, and it is
// gone when we are. No shell.
import { spawn } from 'node:child_process'

const running = new Set()
let stopSignal = null

/** Set once a signal arrived: no further step may begin. */
export const stopped = () => stopSignal

/** One Ctrl-C can arrive more than once: from the terminal to the process group, and forwarded by the parent process. */
const sameSignalMs = 1000

/** Forwards SIGINT and SIGTERM to the running program; a second signal kills it. */
export function forwardSignals() {
  let firstMs
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
      const isSecond = firstMs !== undefined && performance.now() - firstMs > sameSignalMs
      firstMs ??= performance.now()
      stopSignal = signal
      for (const child of running) child.kill(isSecond ? 'SIGKILL' : signal)
      if (running.size === 0) process.exit(130)
    })
  }
}

/**
 * `onLine` sees each line as it comes.
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, inherit?: boolean, onLine?: (line: string) => void, limitMs?: number }} [options]
 * @returns {Promise<{ code: number, output: string }>}
 */
export function runProgram(command, args, { cwd, env = process.env, inherit = false, onLine = () => {}, limitMs } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: inherit ? 'inherit' : ['ignore', 'pipe', 'pipe'] })
    running.add(child)
    const timer = limitMs === undefined ? undefined : setTimeout(() => child.kill('SIGTERM'), limitMs)
    let output = ''
    for (const stream of inherit ? [] : [child.stdout, child.stderr]) {
      stream.setEncoding('utf8')
      stream.on('data', (text) => {
        output = (output + text).slice(-2_000_000)
        for (const line of text.split('\n')) if (line.trim() !== '') onLine(line)
      })
    }
    child.on('error', reject)
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      running.delete(child)
      resolve({ code: code ?? (signal === null ? 1 : 128), output })
    })
  })
}
