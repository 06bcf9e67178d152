// An operator for tests, in this process or as a program, on the shared API server with simulated nodes. Each world has its own namespace,
// which is also the namespace of its Lease, so that worlds do not see each other.
import { dataFlowCrd, dataFlowCronCrd } from '@brokkr/contract/dataflow/crds.ts'
import type { DataFlowStatus } from '@brokkr/contract/dataflow/status.ts'
import { type Fields, type Kube, type KubeObject, loadKubeconfig, openKube, waitForCrd } from '@brokkr/kube'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { readOperatorConfig } from '../config.ts'
import { type OperatorHandle, startOperator } from '../main.ts'
import { apiVersion } from '../names.ts'

export const image = 'example.invalid/brokkr:1'

export interface Operator extends OperatorHandle {
  readonly logged: string[]
  stop(): Promise<void>
}

export type FlowRef = { apiVersion: string; kind: string; namespace: string; name: string }

export class World {
  readonly plane: TestCluster
  readonly kube: Kube
  readonly namespace: string
  readonly #open: (() => Promise<unknown>)[] = []

  constructor(plane: TestCluster, kube: Kube, namespace: string) {
    this.plane = plane
    this.kube = kube
    this.namespace = namespace
  }

  env(more: Record<string, string> = {}): Record<string, string> {
    return {
      KUBECONFIG: this.plane.kubeconfigPath,
      WATCH_NAMESPACES: this.namespace,
      OPERATOR_NAMESPACE: this.namespace,
      OPERATOR_BIND_HOST: '127.0.0.1',
      OPERATOR_METRICS_PORT: '0',
      OPERATOR_PROBE_PORT: '0',
      PROCESSOR_IMAGE: image,
      ...more,
    }
  }

  /** Ready when it returns. */
  async startOperator(more: Record<string, string> = {}): Promise<Operator> {
    const logged: string[] = []
    const log = createLog({ name: 'operator', level: 'debug', destination: { write: (line) => void logged.push(line) } })
    const lifecycle = createLifecycle({ log }, { graceMs: 10_000 })
    const handle = await startOperator(readOperatorConfig(this.env(more)), { log, lifecycle, env: {} })
    const stop = () => lifecycle.close('the test has ended')
    this.#open.push(stop)
    const onTimeout = () => logged.slice(-20).join('')
    await waitFor('the operator', () => handle.notReady() === null && handle.isLeader(), { limitMs: 60_000, onTimeout })
    return { ...handle, logged, stop }
  }

  onClose(close: () => Promise<unknown>): void {
    this.#open.push(close)
  }

  async close(): Promise<void> {
    for (const close of this.#open.toReversed()) await close()
    await this.kube.close()
  }

  ref(name: string, kind = 'DataFlow'): FlowRef {
    return { apiVersion, kind, namespace: this.namespace, name }
  }

  async create(
    name: string,
    spec: object,
    more: { kind?: string; annotations?: Record<string, string>; finalizers?: string[] } = {},
  ): Promise<KubeObject> {
    const { kind = 'DataFlow', ...metadata } = more
    return this.kube.create({ apiVersion, kind, metadata: { name, namespace: this.namespace, ...metadata }, spec: { ...spec } })
  }

  read(kind: string, name: string): Promise<KubeObject | undefined> {
    return this.kube.find({ apiVersion: apiVersions[kind] ?? 'v1', kind, namespace: this.namespace, name })
  }

  async list(kind: string): Promise<KubeObject[]> {
    return (await this.kube.list({ apiVersion: apiVersions[kind] ?? 'v1', kind }, { namespace: this.namespace })).items
  }

  async status(name: string, kind = 'DataFlow'): Promise<DataFlowStatus> {
    return (await this.kube.get(this.ref(name, kind))).status ?? {}
  }

  async condition(name: string, type: string): Promise<Fields | undefined> {
    return (await this.status(name)).conditions?.find((each) => each.type === type)
  }

  patch(name: string, body: Fields, kind = 'DataFlow'): Promise<KubeObject> {
    return this.kube.patch(this.ref(name, kind), { type: 'merge', body }, { fieldManager: 'test' })
  }

  /** Waits until the status has these fields. */
  async until(
    name: string,
    wanted: Partial<DataFlowStatus> | ((status: DataFlowStatus) => boolean),
    kind = 'DataFlow',
  ): Promise<DataFlowStatus> {
    let last: DataFlowStatus = {}
    return waitFor(
      `${name} to be ${typeof wanted === 'function' ? wanted.toString() : JSON.stringify(wanted)}`,
      async () => {
        last = await this.status(name, kind)
        const isSo =
          typeof wanted === 'function'
            ? wanted(last)
            : Object.entries(wanted).every(([key, value]) => JSON.stringify(last[key as keyof DataFlowStatus]) === JSON.stringify(value))
        return isSo && last
      },
      { limitMs: 120_000, onTimeout: () => JSON.stringify(last) },
    )
  }

  /** Reasons of all events about an object, with their counts. */
  async events(name: string): Promise<Record<string, number>> {
    const found: Record<string, number> = {}
    for (const event of await this.list('Event')) {
      if ((event['involvedObject'] as { name?: string }).name !== name) continue
      const reason = String(event['reason'])
      found[reason] = (found[reason] ?? 0) + Number(event['count'] ?? 1)
    }
    return found
  }
}

const apiVersions: Readonly<Record<string, string>> = {
  Deployment: 'apps/v1',
  Role: 'rbac.authorization.k8s.io/v1',
  RoleBinding: 'rbac.authorization.k8s.io/v1',
  Job: 'batch/v1',
  CronJob: 'batch/v1',
  DataFlow: apiVersion,
  DataFlowCron: apiVersion,
}

export async function openWorld(): Promise<World> {
  const plane = await cluster()
  await nodes(1)
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  for (const crd of [dataFlowCrd(), dataFlowCronCrd()] as unknown as KubeObject[]) {
    await kube.apply(crd, { fieldManager: 'test', force: true })
    await waitForCrd({ kube, clock: systemClock }, crd, { limitMs: 60_000 })
  }
  return new World(plane, kube, await plane.namespace('flows'))
}

export const encode = (data: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
