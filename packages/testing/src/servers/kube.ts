// A real Kubernetes API for tests: one control plane per run, a fresh namespace per call. Where a test must kill parts of it, one of
// its own.
import { randomBytes } from 'node:crypto'
import { openKubeApi } from '@brokkr/local/kubernetes/api-call.ts'
import { type ControlPlane, type ControlPlaneOptions, startControlPlane } from '@brokkr/local/kubernetes/kubernetes.ts'
import { waitFor } from '../wait-for.ts'
import { callServers } from './owner/client.ts'
import type { PlaneAddress } from './owner/protocol.ts'
import { identity } from './owner/test-run.ts'

type Api = ControlPlane['api']
type Namespaces = {
  /** Creates a namespace with a unique name. Never deleted: that takes five seconds, and the control plane ends with the run. */
  readonly namespace: (prefix?: string) => Promise<string>
}
export type TestCluster = Omit<PlaneAddress, 'hasControllers'> & Namespaces & { api: Api }
export type PrivateCluster = ControlPlane & Namespaces
export type PrivateClusterOptions = Partial<Pick<ControlPlaneOptions, 'controllers' | 'nodes' | 'liftLimits' | 'apiserverArgs' | 'log'>>

/** The shared plane. `controllers: false` does not wait for controllers; another test may have started them all the same. */
export async function cluster(options: { controllers?: boolean } = {}): Promise<TestCluster> {
  const { hasControllers, ...address } = await callServers('kube.plane', { controllers: options.controllers ?? true, nodes: 0 })
  const api = openKubeApi(address).call
  return { ...address, api, namespace: (prefix) => makeNamespace(api, hasControllers, prefix) }
}

/** A plane of its own, to be killed and restarted. It ends with this process, the test file or the run, whichever is first. */
export async function privateCluster(options: PrivateClusterOptions = {}): Promise<PrivateCluster> {
  const isFull = (options.controllers ?? false) || (options.nodes ?? 0) > 0
  const assets = await callServers('kube.assets', { stage: isFull ? 'full' : 'core' })
  const dir = await callServers('loan.folder', { kind: 'plain' })
  const plane = await startControlPlane({ ...options, dir, assets })
  const noted = async (work?: Promise<void>) => {
    await work
    await callServers('loan.note', { folder: dir, processes: Object.values(plane.pids()).map(identity) })
  }
  await noted()
  return {
    ...plane,
    start: (component) => noted(plane.start(component)),
    startControllers: () => noted(plane.startControllers()),
    ensureNodes: (count) => noted(plane.ensureNodes(count)),
    namespace: (prefix) => makeNamespace(plane.api, 'kube-controller-manager' in plane.pids(), prefix),
  }
}

async function makeNamespace(api: Api, hasControllers: boolean, prefix = 'test'): Promise<string> {
  const name = `${prefix}-${randomBytes(5).toString('hex')}`
  const { status, json } = await api('POST', '/api/v1/namespaces', { body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } } })
  if (status !== 201) throw new Error(`the API server refused namespace ${name} with ${status}: ${JSON.stringify(json)}`)
  // Pods cannot be made before it is there.
  if (hasControllers) await waitFor(`the default service account of namespace ${name}`, () => hasDefaultAccount(api, name))
  return name
}

async function hasDefaultAccount(api: Api, namespace: string): Promise<boolean> {
  return (await api('GET', `/api/v1/namespaces/${namespace}/serviceaccounts/default`)).status === 200
}
