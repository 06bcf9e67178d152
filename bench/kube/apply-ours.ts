// Ours: the toolkit's apply of the same set, shipped defaults but for the dry run, which the bare loop does not do either.
import { applyObjects, loadKubeconfig, openKube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { configMap } from './objects.ts'

const [path, namespace, countText, value] = process.argv.slice(2) as [string, string, string, string]
const kube = openKube(await loadKubeconfig({ path, env: process.env }))
const items = Array.from({ length: Number(countText) }, (_, n) => ({ object: configMap(namespace, n, value), force: true }))
const started = performance.now()
const report = await applyObjects({ kube, clock }, items, { fieldManager: 'brokkr-agent', dryRun: false, concurrency: 32 })
if (!report.ok) throw new Error(`not applied: ${JSON.stringify(report.outcomes.find(({ failure }) => failure)?.failure)}`)
process.stdout.write(JSON.stringify({ seconds: (performance.now() - started) / 1000 }))
await kube.close()
