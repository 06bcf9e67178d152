// The toolkit beside a bare loop and kubectl, in one run on one API server: server-side apply of many ConfigMaps, three rounds
// interleaved, medians; the API server's own CPU stands beside it, because it is the limit.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureKubeAssets } from '@brokkr/local/assets.ts'
import { privateCluster } from '@brokkr/testing/kube.ts'
import { cpuSecondsOf, type Measured, measure } from '../child.ts'
import { percentile, tell } from '../figures.ts'
import { benchInformer } from './informer.ts'
import { configMapText } from './objects.ts'

const count = Number(process.env['BENCH_OBJECTS'] ?? 10_000)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const assets = await ensureKubeAssets({ parts: ['kubectl'] })
const plane = await privateCluster({ controllers: false })
const dir = mkdtempSync(join(tmpdir(), 'bench-kube-'))
const caFile = join(dir, 'ca.crt')
writeFileSync(caFile, plane.caPem)

interface Round extends Measured {
  readonly rate: number
  readonly serverCpu: number
}
const results: Record<string, Round[]> = {}
async function round(name: string, run: (namespace: string) => Promise<Measured>): Promise<void> {
  const namespace = await plane.namespace('bench')
  const server = plane.pids()['kube-apiserver']!
  const before = cpuSecondsOf(server)
  const measured = await run(namespace)
  const own =
    measured.output === '' ? undefined : (JSON.parse(measured.output.trim().split('\n').at(-1) ?? '{}') as { seconds?: number }).seconds
  ;(results[name] ??= []).push({ ...measured, rate: count / (own ?? measured.seconds), serverCpu: cpuSecondsOf(server) - before })
}

const here = import.meta.dirname
for (let n = 0; n < rounds; n += 1) {
  await round('bare loop', (namespace) =>
    measure(process.execPath, [join(here, '../bare/apply.ts'), plane.url, caFile, plane.token, namespace, String(count), 'a']),
  )
  await round('ours', (namespace) =>
    measure(process.execPath, [
      '--max-semi-space-size=8',
      join(here, 'apply-ours.ts'),
      plane.kubeconfigPath,
      namespace,
      String(count),
      'a',
    ]),
  )
  await round('kubectl', async (namespace) => {
    const file = join(dir, `${namespace}.yaml`)
    writeFileSync(file, Array.from({ length: count }, (_, at) => configMapText(namespace, at, 'a')).join('\n---\n'))
    const env = { KUBECONFIG: plane.kubeconfigPath, HOME: dir }
    await measure(assets.kubectl!, ['get', 'configmaps', '-n', namespace, '-o', 'name'], env) // warm discovery
    return {
      ...(await measure(assets.kubectl!, ['apply', '--server-side', '--force-conflicts', '-f', file, '-o', 'name'], env)),
      output: '',
    }
  })
}
const median = (name: string, of: (one: Round) => number) => percentile(results[name]!.map(of), 0.5)
for (const name of Object.keys(results)) {
  const figure = `${median(name, ({ rate }) => rate).toFixed(0)}/s · client CPU ${median(name, ({ cpuSeconds }) => cpuSeconds).toFixed(1)} s · peak ${median(name, ({ peakMib }) => peakMib).toFixed(0)} MiB · API server CPU ${median(name, ({ serverCpu }) => serverCpu).toFixed(1)} s`
  tell(`apply ${count} ConfigMaps: ${name}`, figure)
}
tell('ours / bare loop (bar 0.8)', (median('ours', ({ rate }) => rate) / median('bare loop', ({ rate }) => rate)).toFixed(2))
tell('ours / kubectl (bar 2.5)', (median('ours', ({ rate }) => rate) / median('kubectl', ({ rate }) => rate)).toFixed(2))

const namespace = await plane.namespace('informer')
const bare = (objects: number, value: string) =>
  measure(process.execPath, [join(here, '../bare/apply.ts'), plane.url, caFile, plane.token, namespace, String(objects), value])
await bare(count, 'first')
const touch = async (events: number, value: string) => void (await bare(events, value))
await benchInformer({ kubeconfigPath: plane.kubeconfigPath, namespace, objects: count, rounds, touch })
await plane.stop()
