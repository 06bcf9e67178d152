// Ours: an informer over everything in a namespace. Tells when it is in sync, then its CPU after the events it was promised.

import { loadKubeconfig, openKube, startInformer } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { reportInformer } from './informer-report.ts'

const [path, namespace, countText, eventsText] = process.argv.slice(2) as [string, string, string, string]
const report = reportInformer(Number(eventsText))
const kube = openKube(await loadKubeconfig({ path, env: process.env }))
report.started()
const informer = startInformer({ kube, clock, log }, { kind: { apiVersion: 'v1', kind: 'ConfigMap' }, namespace })
informer.onChange(({ type }) => {
  if (type === 'updated') report.event()
})
await informer.whenSynced()
// Kubernetes puts a ConfigMap of its own into every namespace.
if (informer.size < Number(countText)) throw new Error('in sync without all objects')
report.synced()
await report.finished
await informer.stop()
await kube.close()
