// Runs one measured program as a separate process and reports its wall time, CPU and peak memory; its last line, as JSON, is
// its own figure. Programs are measured apart, so that one's garbage is not the other's.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

export interface Measured {
  readonly seconds: number
  readonly cpuSeconds: number
  readonly peakMib: number
  readonly output: string
}

export async function measure(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<Measured> {
  const started = performance.now()
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  let peakKib = 0
  let ticks = 0
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  const sampling = setInterval(() => {
    try {
      peakKib = Math.max(peakKib, Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1] ?? 0))
      const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
      ticks = Number(stat[11]) + Number(stat[12])
    } catch {
      // It has ended between two samples.
    }
  }, 20)
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  clearInterval(sampling)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${output}`)
  return { seconds: (performance.now() - started) / 1000, cpuSeconds: ticks / 100, peakMib: peakKib / 1024, output }
}

/** CPU seconds of a running process so far. */
export function readCpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(stat[11]) + Number(stat[12])) / 100
}

export interface Child {
  /** The next line of its output. */
  line(): Promise<string>
  readonly ended: Promise<void>
}

/** Starts a program that runs in parallel and reports its progress line by line. */
export function startChild(command: string, args: readonly string[]): Child {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ended = new Promise<void>((resolve, reject) => {
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(`${args.join(' ')} ended with ${code}`))))
  })
  ended.catch(() => undefined)
  return {
    ended,
    line: async () => {
      const { value, done } = await lines.next()
      if (done === true) throw new Error(`${args.join(' ')} ended without a further line`)
      return value
    },
  }
}
