// Informers side by side: first sync of many objects, then the CPU that events cost, ours and the official client's in turn. Ours runs as it
// ships, as one bundled file; the other as its documentation shows it.
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { cacheDir } from '@brokkr/local/assets/cache.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { bundleProgram } from '../bundle.ts'
import { startChild } from '../child.ts'
import { percentile, tell } from '../figures.ts'

const peerVersion = '2.0.1'
export interface InformerBench {
  readonly kubeconfigPath: string
  readonly namespace: string
  readonly objects: number
  readonly rounds: number
  /** Changes each of the first `events` objects once. */
  readonly touch: (events: number, value: string) => Promise<void>
}
interface Figures {
  /** From its start in a process that has loaded everything. */
  readonly syncedMs: number
  /** From the start of the process. */
  readonly processMs: number
  readonly cpuMs: number
  readonly residentMib: number
  readonly eventUs: number
}

export async function benchInformer(bench: InformerBench): Promise<void> {
  const entry = await peerEntry()
  const events = Math.min(5000, bench.objects)
  const programs = {
    ours: await bundleProgram(join(import.meta.dirname, 'informer-ours.ts')),
    'client-node': join(import.meta.dirname, 'informer-peer.ts'),
  }
  const results: Record<string, Figures[]> = {}
  for (let round = 0; round < bench.rounds; round += 1) {
    for (const [name, program] of Object.entries(programs)) {
      const args = [bench.kubeconfigPath, bench.namespace, String(bench.objects), String(events), entry]
      const child = startChild(process.execPath, ['--expose-gc', '--max-semi-space-size=8', program, ...args])
      const first = JSON.parse(await child.line()) as Omit<Figures, 'eventUs'>
      await bench.touch(events, `${name}-${round}`)
      const second = JSON.parse(await child.line()) as { cpuMs: number }
      await child.ended
      ;(results[name] ??= []).push({ ...first, eventUs: (second.cpuMs * 1000) / events })
    }
  }
  const median = (name: string, of: keyof Figures) =>
    percentile(
      results[name]!.map((one) => one[of]),
      0.5,
    )
  for (const name of Object.keys(results)) {
    tell(
      `informer, ${bench.objects} objects: ${name}`,
      `in sync ${median(name, 'syncedMs').toFixed(0)} ms after its start, ${median(name, 'processMs').toFixed(0)} ms after its process's · CPU ${median(name, 'cpuMs').toFixed(0)} ms · resident ${median(name, 'residentMib').toFixed(0)} MiB · ${median(name, 'eventUs').toFixed(0)} µs CPU per event`,
    )
  }
  const ratio = (of: keyof Figures) => (median('ours', of) / median('client-node', of)).toFixed(2)
  tell('first sync from its start, ours / client-node (bar 0.5)', ratio('syncedMs'))
  tell("first sync from its process's start, ours / client-node (no bar)", ratio('processMs'))
  tell('CPU per event, ours / client-node (bar 0.7)', ratio('eventUs'))
  tell(
    'resident, client-node − ours (bar 40 MiB)',
    `${(median('client-node', 'residentMib') - median('ours', 'residentMib')).toFixed(0)} MiB`,
  )
}

/** The peer is no dependency of ours: it lies in the cache, installed by the ordinary client, exact version. */
async function peerEntry(): Promise<string> {
  const dir = join(cacheDir(), 'peers', `client-node-${peerVersion}`)
  const entry = join(dir, 'node_modules/@kubernetes/client-node/dist/index.js')
  if (existsSync(entry)) return entry
  mkdirSync(dir, { recursive: true })
  const args = ['install', '--prefix', dir, '--no-save', '--ignore-scripts', `@kubernetes/client-node@${peerVersion}`]
  const env = Object.fromEntries(Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  await runTool({ name: 'npm', command: 'npm', args, cwd: dir, env, logFile: join(dir, 'install.log'), timeoutMs: 300_000 })
  return entry
}
