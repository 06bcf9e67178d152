// An agent's way of changing a real cluster, without the broker: the dependencies of reconcile on a namespace of its own, and a
// record of every write that leaves for the API server.
import { randomUUID } from 'node:crypto'
import { openKube } from '@brokkr/kube/client.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import type { KubeObject, ObjectRef } from '@brokkr/kube/object.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import type { TestCluster } from '@brokkr/testing/kube.ts'
import { afterAll } from 'vitest'
import { holdObject } from '../follow/held-object.ts'
import { agentMetrics } from '../metrics.ts'
import { ensureHashKey } from '../reconcile/agent-state.ts'
import type { ApplyTask } from '../reconcile/attempt.ts'
import { CleanMarks } from '../reconcile/clean-marks.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { MemberIndex } from '../reconcile/member-index.ts'
import { StackParents } from '../reconcile/stack-parents.ts'

export interface Write {
  readonly verb: 'apply' | 'create' | 'replace' | 'patch' | 'delete'
  readonly ref: ObjectRef
}
export interface ReconcileWorld {
  readonly at: TestCluster
  /** The agent's own namespace. */
  readonly own: string
  readonly kube: Kube
  readonly agentId: string
  readonly deps: ReconcileDeps
  /** What left for the API server and was no dry run. */
  readonly writes: Write[]
  /** Called before each of them. */
  onWrite: (write: Write) => void
  /** The same agent after a restart: it remembers nothing. */
  restarted(): ReconcileDeps
}

export async function reconcileWorld(at: TestCluster, change: Partial<ReconcileDeps['settings']> = {}): Promise<ReconcileWorld> {
  const own = await at.namespace('agent')
  const direct = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  afterAll(() => direct.close())
  const agentId = randomUUID()
  const world: { writes: Write[]; onWrite: (write: Write) => void } = { writes: [], onWrite: () => undefined }
  const kube = recording(direct, (write) => {
    world.writes.push(write)
    world.onWrite(write)
  })
  const hashKey = await ensureHashKey({ kube: direct }, own, AbortSignal.timeout(30_000))
  const depsNow = (): ReconcileDeps => ({
    kube,
    clock,
    metrics: agentMetrics(createMetrics()),
    parents: new StackParents({ kube, clock }, { namespace: own, agentId, tooling: 'brokkr/v0.0.0', savesManifests: true }),
    members: new MemberIndex(),
    clean: new CleanMarks(),
    agentId,
    hashKey,
    settings: {
      policy: { allowedNamespaces: [], protectedNamespaces: [own], deniedKinds: [] },
      defaultNamespace: 'default',
      adoption: 'unowned',
      applyConcurrency: 8,
      dryRun: true,
      fieldValidation: 'Strict',
      crdWaitMs: 30_000,
      goneWaitMs: 200,
      ...change,
    },
  })
  return Object.assign(world, { at, own, kube: direct, agentId, deps: depsNow(), restarted: depsNow })
}

/** Passes everything on, and tells of what changes the cluster. */
function recording(kube: Kube, told: (write: Write) => void): Kube {
  const dry = (options?: { dryRun?: boolean | undefined }) => options?.dryRun === true
  return {
    ...kube,
    apply: (object, options) => (dry(options) || told({ verb: 'apply', ref: refOf(object) }), kube.apply(object, options)),
    create: (object, options) => (dry(options) || told({ verb: 'create', ref: refOf(object) }), kube.create(object, options)),
    replace: (object, options) => (dry(options) || told({ verb: 'replace', ref: refOf(object) }), kube.replace(object, options)),
    patch: (ref, patch, options) => (dry(options) || told({ verb: 'patch', ref }), kube.patch(ref, patch, options)),
    delete: (ref, options) => (dry(options) || told({ verb: 'delete', ref }), kube.delete(ref, options)),
  }
}

const refOf = ({ apiVersion, kind, metadata }: KubeObject): ObjectRef => ({
  apiVersion,
  kind,
  namespace: metadata.namespace,
  name: metadata.name,
})

/** `apply ConfigMap a`, without the agent's own Secrets. */
export const described = (writes: readonly Write[]): string[] =>
  writes
    .filter(({ ref }) => !ref.name.startsWith('brokkr-'))
    .map(({ verb, ref }) => `${verb} ${ref.kind} ${ref.name}`)
    .toSorted()

/** A revision of a stack as the loop hands it over. */
export function revision(stackId: string, rev: number, objects: readonly object[] | string, change: Partial<ApplyTask> = {}): ApplyTask {
  const text = typeof objects === 'string' ? objects : objects.map((object) => JSON.stringify(object)).join('\n---\n')
  const object = holdObject({ id: randomUUID() as never, sequenceId: rev, isMarker: false }, text)
  return { stackId, rev, drift: 'heal', object, text, suspects: new Set(), ...change }
}

export const configMap = (namespace: string, name: string, data: Record<string, unknown> = {}, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace, ...metadata },
  data,
})
export const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap' }
