// Runs the load as a process and takes the CPU time of those measured exactly between its first and last counted request.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { cpuNsOfFamily, readCpuNs } from '../cpu.ts'
import { percentile } from '../figures.ts'
import type { LoadOrder, LoadResult } from './load-main.ts'

export interface Figures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of the server under test, per request. */
  readonly ownUs: number
  readonly postgresUs: number
}

export async function runLoad(order: LoadOrder, pids: { server: number; postgres: number }): Promise<Figures> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('load-main.ts', import.meta.url))], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(JSON.stringify(order))
  const cpu = () => ({ own: readCpuNs(pids.server), postgres: cpuNsOfFamily(pids.postgres) })
  let [before, after] = [cpu(), cpu()]
  let result: LoadResult | null = null
  for await (const line of createInterface(child.stdout)) {
    if (line === 'counting') before = cpu()
    else if (line === 'counted') after = cpu()
    else result = JSON.parse(line) as LoadResult
  }
  if (result === null) throw new Error('the load ended without a result')
  if (result.refused > 0) throw new Error(`${result.refused} requests were refused, the first with:\n${result.firstRefusal}`)
  const perRequestUs = (ns: number) => ns / 1000 / result.requests
  return {
    perSecond: result.requests / result.seconds,
    p50Ms: percentile(result.latenciesMs, 0.5),
    p99Ms: percentile(result.latenciesMs, 0.99),
    ownUs: perRequestUs(after.own - before.own),
    postgresUs: perRequestUs(after.postgres - before.postgres),
  }
}

/** Each figure's median over the rounds. */
export function medians(rounds: readonly Figures[]): Figures {
  const median = (of: (one: Figures) => number) => percentile(rounds.map(of), 0.5)
  return {
    perSecond: median((one) => one.perSecond),
    p50Ms: median((one) => one.p50Ms),
    p99Ms: median((one) => one.p99Ms),
    ownUs: median((one) => one.ownUs),
    postgresUs: median((one) => one.postgresUs),
  }
}

export const inWords = ({ perSecond, p99Ms, ownUs, postgresUs }: Figures): string =>
  `${perSecond.toFixed(0)}/s · p99 ${p99Ms.toFixed(1)} ms · CPU ${ownUs.toFixed(0)} µs + PostgreSQL ${postgresUs.toFixed(0)} µs per request`
