// Progress of `brokkr up`: one line per step with its current work and duration; without a terminal, one line per change.
import { performance } from 'node:perf_hooks'

export type Say = (text: string) => void
export interface StepResult<T> {
  readonly detail: string
  readonly value: T
  /** The step is not possible on this machine; the detail says why and what to do. */
  readonly skipped?: boolean
}
export interface Progress {
  step<T>(name: string, work: (say: Say) => Promise<StepResult<T>>): Promise<T>
  skip(name: string, why: string): void
  /** Ends a line that is still being drawn. */
  stop(): void
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']

/** `signal`: the whole start is being canceled; a step that ends because of it has not failed. */
export function createProgress(options: { plain: boolean; signal: AbortSignal; out?: NodeJS.WriteStream }): Progress {
  const out = options.out ?? process.stdout
  const isLive = !options.plain && out.isTTY
  let timer: NodeJS.Timeout | undefined
  const endLine = () => {
    clearInterval(timer)
    timer = undefined
    if (isLive) out.write('\r\u001b[2K')
  }
  return {
    step: async (name, work) => {
      const startedMs = performance.now()
      const line = isLive ? liveLine(out, name) : plainLine(out, name)
      if (isLive) timer = setInterval(line.draw, 100)
      try {
        const { detail, value, skipped } = await work(line.say)
        endLine()
        writeStep(out, {
          mark: skipped === true ? '−' : '✔',
          name,
          detail: skipped === true ? `skipped: ${detail}` : detail,
          ms: performance.now() - startedMs,
        })
        return value
      } catch (error) {
        endLine()
        const how = options.signal.aborted ? { mark: '−', detail: 'stopped before it was ready' } : { mark: '✖', detail: 'failed' }
        writeStep(out, { ...how, name, ms: performance.now() - startedMs })
        throw error
      }
    },
    skip: (name, why) => writeStep(out, { mark: '−', name, detail: why, ms: 0 }),
    stop: endLine,
  }
}

function writeStep(out: NodeJS.WriteStream, { mark, name, detail, ms }: { mark: string; name: string; detail: string; ms: number }): void {
  const [first = '', ...more] = detail.split('\n')
  out.write(`  ${mark} ${name.padEnd(12)} ${first.padEnd(60)} ${(ms / 1000).toFixed(1).padStart(6)} s\n`)
  for (const line of more) out.write(`      ${line}\n`)
}

interface Line {
  readonly say: Say
  readonly draw: () => void
}

function liveLine(out: NodeJS.WriteStream, name: string): Line {
  let currentText = ''
  let frame = 0
  return {
    say: (text) => {
      currentText = text
    },
    draw: () => {
      frame = (frame + 1) % frames.length
      out.write(`\r\u001b[2K  ${frames[frame]} ${name.padEnd(12)} ${currentText}`.slice(0, (out.columns || 100) + 6))
    },
  }
}

function plainLine(out: NodeJS.WriteStream, name: string): Line {
  let last = ''
  let lastMs = -Infinity
  return {
    say: (text) => {
      if (text === last || performance.now() - lastMs < 1000) return
      last = text
      lastMs = performance.now()
      out.write(`  … ${name.padEnd(12)} ${text}\n`)
    },
    draw: () => undefined,
  }
}
