// Server-side apply of many ConfigMaps: ours, a bare loop, kubectl, in turn; the API server's own CPU stands beside it, because it is
// the limit.
import { join } from 'node:path'
import type { privateCluster } from '@brokkr/testing/servers/kube.ts'
import { type Measured, measure, readCpuSeconds } from '../child.ts'
import { percentile, tell } from '../figures.ts'
import { applyByKubectl } from '../kubectl.ts'

export interface ApplyBench {
  readonly plane: Awaited<ReturnType<typeof privateCluster>>
  readonly dir: string
  readonly count: number
  readonly rounds: number
  readonly bare: (namespace: string) => Promise<Measured>
}
interface Round extends Measured {
  readonly rate: number
  readonly serverCpu: number
}

export async function benchApply(bench: ApplyBench): Promise<void> {
  const { count } = bench
  const at = { kubeconfigPath: bench.plane.kubeconfigPath, dir: bench.dir }
  const programs = {
    'bare loop': bench.bare,
    ours: (namespace: string) => applyOurs(bench, namespace),
    kubectl: (namespace: string) => applyByKubectl({ ...at, namespace }, count),
  }
  const results: Record<string, Round[]> = {}
  for (let n = 0; n < bench.rounds; n += 1)
    for (const [name, run] of Object.entries(programs)) (results[name] ??= []).push(await runRound(bench, run))
  const median = (name: string, of: (one: Round) => number) => percentile(results[name]!.map(of), 0.5)
  for (const name of Object.keys(results)) {
    const figure = `${median(name, ({ rate }) => rate).toFixed(0)}/s · client CPU ${median(name, ({ cpuSeconds }) => cpuSeconds).toFixed(1)} s · peak ${median(name, ({ peakMib }) => peakMib).toFixed(0)} MiB · API server CPU ${median(name, ({ serverCpu }) => serverCpu).toFixed(1)} s`
    tell(`apply ${count} ConfigMaps: ${name}`, figure)
  }
  tell('ours / bare loop (bar 0.8)', (median('ours', ({ rate }) => rate) / median('bare loop', ({ rate }) => rate)).toFixed(2))
  tell('ours / kubectl (bar 2.5)', (median('ours', ({ rate }) => rate) / median('kubectl', ({ rate }) => rate)).toFixed(2))
}

async function runRound({ plane, count }: ApplyBench, run: (namespace: string) => Promise<Measured>): Promise<Round> {
  const namespace = await plane.namespace('bench')
  const server = plane.pids()['kube-apiserver']!
  const before = readCpuSeconds(server)
  const measured = await run(namespace)
  const last = measured.output.trim().split('\n').at(-1)
  const own = last ? (JSON.parse(last) as { seconds?: number }).seconds : undefined
  return { ...measured, rate: count / (own ?? measured.seconds), serverCpu: readCpuSeconds(server) - before }
}

const applyOurs = ({ plane, count }: ApplyBench, namespace: string): Promise<Measured> =>
  measure(process.execPath, [
    '--max-semi-space-size=8',
    join(import.meta.dirname, 'apply-ours.ts'),
    plane.kubeconfigPath,
    namespace,
    String(count),
    'a',
  ])
