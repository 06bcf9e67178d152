// The peer: the official client's informer over the same namespace, as its documentation shows it.
import { pathToFileURL } from 'node:url'
import { reportInformer } from './informer-report.ts'

interface Peer {
  KubeConfig: new () => {
    loadFromFile(path: string): void
    makeApiClient(api: unknown): { listNamespacedConfigMap(p: object): Promise<unknown> }
  }
  CoreV1Api: unknown
  makeInformer(
    config: unknown,
    path: string,
    list: () => Promise<unknown>,
  ): { on(event: string, handler: (object: unknown) => void): void; start(): Promise<void>; stop(): Promise<void>; list(): unknown[] }
}
const [path, namespace, countText, eventsText, entry] = process.argv.slice(2) as [string, string, string, string, string]
const peer = (await import(pathToFileURL(entry).href)) as Peer
const report = reportInformer(Number(eventsText))
const config = new peer.KubeConfig()
config.loadFromFile(path)
const api = config.makeApiClient(peer.CoreV1Api)
const informer = peer.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => api.listNamespacedConfigMap({ namespace }))
let added = 0
// Told of its last object it is in sync; its start also waits for the watch, which is not counted.
informer.on('add', () => {
  added += 1
  if (added === Number(countText)) report.synced()
})
informer.on('update', () => report.event())
informer.on('error', (error) => {
  throw error
})
report.started()
await informer.start()
if (informer.list().length < Number(countText)) throw new Error('in sync without all objects')
await report.finished
await informer.stop()
process.exit(0)
