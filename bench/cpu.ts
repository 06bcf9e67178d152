// CPU time that processes have used so far, in nanoseconds by the scheduler's own count: ticks of 10 ms would hide what one request
// costs. Linux only, like the rest of the benchmarks.
import { readdirSync, readFileSync } from 'node:fs'

/** All threads of one process. */
export function readCpuNs(pid: number): number {
  return sum(listThreads(pid).map((thread) => firstNumber(`/proc/${pid}/task/${thread}/schedstat`)))
}

/** A server and its workers: PostgreSQL has a process per connection. */
export function cpuNsOfFamily(parent: number): number {
  return sum([parent, ...listChildren(parent)].map(readCpuNs))
}

function listThreads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return [] // The process has ended.
  }
}

function listChildren(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && readParent(name) === parent)
    .map(Number)
}

function readParent(pid: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1])
  } catch {
    return -1 // The process has ended.
  }
}

function firstNumber(path: string): number {
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0])
  } catch {
    return 0
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)
