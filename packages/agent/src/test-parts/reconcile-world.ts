// An agent's way of changing a real cluster, without the broker: the dependencies of reconcile on a namespace of its own, and a
// record of every write that leaves for the API server.
import { randomUUID } from 'node:crypto'
import { type Kube, type KubeObject, loadKubeconfig, type ObjectRef, openKube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { TestCluster } from '@brokkr/testing/servers/kube.ts'
import { afterAll } from 'vitest'
import { cacheManifest } from '../desired-state/cached-manifest.ts'
import { agentMetrics } from '../metrics.ts'
import { allGrants } from '../policy/policy.ts'
import { ensureHashKey } from '../reconcile/agent-state.ts'
import type { ApplyTask } from '../reconcile/apply/apply-task.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { VerifiedVersions } from '../reconcile/drift/verified-versions.ts'
import { MemberIndex } from '../reconcile/member-index.ts'
import { PruneApprovals } from '../reconcile/prune/prune-approvals.ts'
import { StackGenerators } from '../reconcile/stack-generators.ts'
import { StackParents } from '../reconcile/stack-parents.ts'
import { type ApiRecorder, apiRecorder } from './api-recorder.ts'
import { stackId as numberedStack } from './frames.ts'

/** Default generator of the stacks of a test. */
export const generatorId = '0c000000-0000-4000-8000-000000000001'

export interface Write {
  readonly verb: 'apply' | 'create' | 'replace' | 'patch' | 'delete'
  readonly ref: ObjectRef
}
export interface ReconcileWorld {
  readonly at: WorldCluster
  /** The agent's own namespace. */
  readonly own: string
  readonly kube: Kube
  readonly agentId: string
  readonly deps: ReconcileDeps
  /** What left for the API server and was no dry run. */
  readonly writes: Write[]
  /** Called before each of them. */
  onWrite: (write: Write) => void
  /** Everything that arrived at the API server from this agent. */
  readonly recorder: ApiRecorder
  /** Stacks of the one generator, beside those of the frames. */
  readonly stackIds: Set<string>
  /** The same agent after a restart: it remembers nothing. */
  restarted(): ReconcileDeps
}

/** Of the shared plane or of one's own. */
export type WorldCluster = Pick<TestCluster, 'url' | 'caPem' | 'token' | 'kubeconfigPath' | 'namespace' | 'api'>

export async function reconcileWorld(
  at: WorldCluster,
  change: Partial<ReconcileDeps['settings']> = {},
  signIn: { readonly token?: string } = {},
): Promise<ReconcileWorld> {
  const own = await at.namespace('agent')
  const direct = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  const recorder = await apiRecorder({ ...at, ...signIn })
  const recorded = openKube(await loadKubeconfig({ path: recorder.kubeconfigPath, env: {} }))
  afterAll(() => Promise.all([direct.close(), recorded.close()]))
  const agentId = randomUUID()
  const world: { writes: Write[]; onWrite: (write: Write) => void } = { writes: [], onWrite: () => undefined }
  const stackIds = new Set<string>()
  const stacks = () =>
    [...Array.from({ length: 1000 }, (_, n) => numberedStack(n)), ...stackIds].map((id) => ({ id, generator_id: generatorId }))
  const kube = recording(recorded, (write) => {
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
    verifiedVersions: new VerifiedVersions(),
    generators: new StackGenerators(() => Promise.resolve(stacks())),
    approvals: new PruneApprovals(),
    agentId,
    hashKey,
    settings: {
      policy: { allowedNamespaces: [], watchNamespace: null, protectedNamespaces: [own], deniedKinds: [] },
      tenants: { grants: { [generatorId]: allGrants }, identities: {}, identitiesRequired: false },
      signatures: { isRequired: false, keys: {} },
      pruneGuard: { count: 5, percent: 20 },
      defaultNamespace: 'default',
      adoption: 'unowned',
      adoptFrom: [],
      applyConcurrency: 8,
      dryRun: true,
      fieldValidation: 'Strict',
      crdWaitMs: 30_000,
      goneWaitMs: 200,
      ...change,
    },
  })
  return Object.assign(world, { at, own, recorder, stackIds, kube: direct, agentId, deps: depsNow(), restarted: depsNow })
}

/** Forwards every call and reports writes. */
function recording(kube: Kube, told: (write: Write) => void): Kube {
  const dry = (options?: { dryRun?: boolean | undefined }) => options?.dryRun === true
  return {
    ...kube,
    apply: (object, options) => (dry(options) || told({ verb: 'apply', ref: refOf(object) }), kube.apply(object, options)),
    create: (object, options) => (dry(options) || told({ verb: 'create', ref: refOf(object) }), kube.create(object, options)),
    replace: (object, options) => (dry(options) || told({ verb: 'replace', ref: refOf(object) }), kube.replace(object, options)),
    patch: (ref, patch, options) => (dry(options) || told({ verb: 'patch', ref }), kube.patch(ref, patch, options)),
    delete: (ref, options) => (dry(options) || told({ verb: 'delete', ref }), kube.delete(ref, options)),
    with: (defaults) => recording(kube.with(defaults), told),
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
  const object = cacheManifest({ id: randomUUID() as never, sequenceId: rev, isDeletionMarker: false }, text)
  return { stackId, rev, drift: 'heal', object, text, driftCandidates: new Set(), backedOff: new Set(), ...change }
}

export const configMap = (namespace: string, name: string, data: Record<string, unknown> = {}, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace, ...metadata },
  data,
})
export const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap' }

/** A definition of a namespaced kind without a schema. */
export const widgetDefinition = (group: string, change: { plural?: string; kind?: string } = {}) => {
  const { plural = 'widgets', kind = 'Widget' } = change
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, plural, singular: plural.slice(0, -1), listKind: `${kind}List` },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    },
  }
}
export const newGroup = (): string => `g${randomUUID().slice(0, 8)}.example.com`

export const deployment = (namespace: string, name: string, replicas: number, image = 'example.invalid/web:1') => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'main', image }] } },
  },
})
