// The toolkit beside others, on one API server, rounds interleaved, medians: server-side apply beside a bare loop and kubectl, informers
// beside the official client's. BENCH_PARTS names what is run, BENCH_OBJECTS how many ConfigMaps, BENCH_ROUNDS how often.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { privateCluster } from '@brokkr/testing/servers/kube.ts'
import { measure } from '../child.ts'
import { benchApply } from './apply.ts'
import { benchInformer } from './informer.ts'

const count = Number(process.env['BENCH_OBJECTS'] ?? 10_000)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const plane = await privateCluster({ controllers: false })
const dir = mkdtempSync(join(tmpdir(), 'bench-kube-'))
const caFile = join(dir, 'ca.crt')
writeFileSync(caFile, plane.caPem)

/** Applies the first `objects` ConfigMaps by undici alone. */
const bare = (namespace: string, objects: number, value: string) =>
  measure(process.execPath, [
    join(import.meta.dirname, '../bare/apply.ts'),
    plane.url,
    caFile,
    plane.token,
    namespace,
    String(objects),
    value,
  ])

const parts = {
  apply: () => benchApply({ plane, dir, count, rounds, bare: (namespace) => bare(namespace, count, 'a') }),
  informer: async () => {
    const namespace = await plane.namespace('informer')
    await bare(namespace, count, 'first')
    const touch = async (events: number, value: string) => void (await bare(namespace, events, value))
    await benchInformer({ kubeconfigPath: plane.kubeconfigPath, namespace, objects: count, rounds, touch })
  },
}
const selectedParts = (process.env['BENCH_PARTS'] ?? Object.keys(parts).join()).split(',') as (keyof typeof parts)[]
try {
  for (const part of selectedParts) await parts[part]()
} finally {
  await plane.stop()
}
