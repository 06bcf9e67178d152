// Shows progress step by step: on a terminal one line per step that is rewritten while it runs, elsewhere (and with
// --plain) one line per change. Plain JavaScript without dependencies, because it runs before anything is installed.
import { performance } from 'node:perf_hooks'

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']

/** A step that ended: what failed, why, the last lines of its log, and what to do next. */
export class StepFailed extends Error {
  constructor({ what, why, log = '', next }) {
    super(`${what}: ${why}`)
    Object.assign(this, { what, why, log, next })
  }
}

/** @typedef {{ write(text: string): unknown, isTTY?: boolean, columns?: number }} Out */

/** @param {{ plain?: boolean, out?: Out }} [options] */
export function createSteps({ plain = false, out = process.stdout } = {}) {
  const live = !plain && Boolean(out.isTTY)
  return {
    live,
    /** `work(say)` may report progress; its result is shown beside the name. `null` hides the step. */
    async run(name, work) {
      const started = performance.now()
      const line = live ? spinningLine(out, name) : plainLine(out, name)
      try {
        const { detail = '', mark = '✔', value } = (await work(line.say)) ?? {}
        line.end(mark, detail, performance.now() - started)
        return value
      } catch (error) {
        line.end('✖', firstLine(error), performance.now() - started)
        throw error
      }
    },
  }
}

/**
 * The end of a run that failed, as a person needs it.
 * @param {any} error
 * @param {Out} [out]
 */
export function tellFailure(error, out = process.stderr) {
  const { what, why, log, next } =
    error instanceof StepFailed ? error : { what: 'unexpected error', why: error?.stack ?? String(error), log: '', next: undefined }
  out.write(`\nerror  ${what}\n  why   ${why}\n`)
  if (log) out.write(`  log   (last lines)\n${tail(log, 20).replace(/^/gm, '        ')}\n`)
  if (next) out.write(`  next  ${next}\n`)
}

export const tail = (text, lines) => text.trimEnd().split('\n').slice(-lines).join('\n')

function spinningLine(out, name) {
  let progress = ''
  let frame = 0
  const draw = () => {
    frame = (frame + 1) % frames.length
    out.write(`\r\u001b[2K  ${frames[frame]} ${name.padEnd(12)} ${progress}`.slice(0, (out.columns ?? 100) + 8))
  }
  const timer = setInterval(draw, 100)
  return {
    say: (text) => {
      progress = text
    },
    end: (mark, detail, ms) => {
      clearInterval(timer)
      out.write(`\r\u001b[2K  ${mark} ${name.padEnd(12)} ${detail.padEnd(60)} ${seconds(ms)}\n`)
    },
  }
}

function plainLine(out, name) {
  let last = ''
  let lastAt = -Infinity
  return {
    say: (text) => {
      // A line a second at most: a log is read, not watched.
      if (text === last || performance.now() - lastAt < 1000) return
      last = text
      lastAt = performance.now()
      out.write(`  … ${name.padEnd(12)} ${text}\n`)
    },
    end: (mark, detail, ms) => out.write(`  ${mark} ${name.padEnd(12)} ${detail.padEnd(60)} ${seconds(ms)}\n`),
  }
}

const seconds = (ms) => `${(ms / 1000).toFixed(1).padStart(6)} s`
const firstLine = (error) => String(error?.message ?? error).split('\n')[0]
