// Figures as a person compares them: median and percentiles of a sample, memory of a process, one line each.
import { readFileSync } from 'node:fs'

export function percentile(sample: readonly number[], share: number): number {
  const sorted = sample.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export const spread = (sample: readonly number[]): string =>
  `p50 ${percentile(sample, 0.5).toFixed(1)} ms · p99 ${percentile(sample, 0.99).toFixed(1)} ms · n ${sample.length}`

/** Resident memory of a process in MiB (Linux). */
export function residentMib(pid: number): number {
  const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kib) / 1024
}

export const tell = (name: string, figure: string): void => void process.stdout.write(`${name.padEnd(44)} ${figure}\n`)
