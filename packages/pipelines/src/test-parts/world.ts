// Two real API servers and a controller with short intervals, for the tests of this package.
import { readFile } from 'node:fs/promises'
import { PIPELINE, PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { hasReason, type Kind, type Kube, type KubeObject, loadKubeconfig, openKube, waitForCrd } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { type Log, silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import {
  type ControllerSettings,
  defaultControllerSettings,
  type PipelinesController,
  startPipelinesController,
} from '../controller/controller.ts'
import { type Leadership, soleLeadership } from '../controller/leadership.ts'
import { type PipelineRecord, type PromotionRecord, toPipelineRecord, toPromotionRecord } from '../objects.ts'
import type { BrokerClients } from '../stacks/broker-clients.ts'
import { notificationStrategy } from '../strategies/notification.ts'
import type { Strategy } from '../strategies/strategy.ts'
import { appDefinitions, managementDefinitions } from './definitions.ts'

export const HELM_RELEASE = { apiVersion: 'helm.toolkit.fluxcd.io/v2', kind: 'HelmRelease' }
export const KUSTOMIZATION = { apiVersion: 'kustomize.toolkit.fluxcd.io/v1', kind: 'Kustomization' }
export const GITOPS_CLUSTER = { apiVersion: 'gitops.weave.works/v1alpha1', kind: 'GitopsCluster' }

export interface Server {
  readonly plane: PrivateCluster
  readonly kube: Kube
  /** The content of a kubeconfig with inline data. */
  readonly kubeconfig: string
}

export async function openServer(definitions: readonly KubeObject[]): Promise<Server> {
  const plane = await privateCluster()
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  for (const definition of definitions) {
    await kube.create(definition)
    await waitForCrd({ kube, clock }, definition, { limitMs: 60_000 })
  }
  return { plane, kube, kubeconfig: await readFile(plane.kubeconfigPath, 'utf8') }
}

export const openManagement = (): Promise<Server> => openServer(managementDefinitions())
export const openLeaf = (): Promise<Server> => openServer(appDefinitions())

export async function closeServer({ kube, plane }: Server): Promise<void> {
  await kube.close()
  await plane.stop()
}

export const fastSettings: ControllerSettings = {
  ...defaultControllerSettings,
  decide: { ...defaultControllerSettings.decide, promotionSettleMs: 0 },
  retry: { baseMs: 100, maxMs: 1_000 },
  passBackoff: { baseMs: 50, maxMs: 1_000 },
  // A machine under load answers late: only tests of these limits shorten them.
  clusters: { ...defaultControllerSettings.clusters, probeEveryMs: 300, collectAfterMs: 300 },
}

export interface StartOptions {
  readonly settings?: Partial<ControllerSettings>
  readonly strategies?: readonly Strategy[]
  readonly leadership?: Leadership
  readonly kube?: Kube
  readonly log?: Log
  readonly brokers?: BrokerClients
}

/** Controllers that run on a server. A fixture waits until each of them has seen its objects. */
const running = new WeakMap<PrivateCluster, Set<PipelinesController>>()
const listRunning = ({ plane }: Server): PipelinesController[] => [...(running.get(plane) ?? [])]

export function startTestController(server: Server, options: StartOptions = {}) {
  const kube = options.kube ?? server.kube
  const metrics = createMetrics({ prefix: 'brokkr_pipelines_' })
  const controller: PipelinesController = startPipelinesController(
    {
      kube,
      clock,
      log: options.log ?? silentLog,
      metrics,
      leadership: options.leadership ?? soleLeadership('test'),
      strategies: options.strategies ?? [notificationStrategy({ kube, clock, events: null })],
      brokers: options.brokers ?? { open: () => ({ reason: 'NoBroker', error: 'this test has no broker' }) },
    },
    { ...fastSettings, ...options.settings },
  )
  const own = running.get(server.plane) ?? new Set()
  running.set(server.plane, own.add(controller))
  const stop = controller.stop.bind(controller)
  return Object.assign(controller, {
    metrics,
    stop: () => {
      own.delete(controller)
      return stop()
    },
  })
}

interface SeenEnvironment {
  readonly targets?: readonly { readonly ready: boolean; readonly revision?: string | null | undefined }[] | undefined
}

/** What a test does with one Pipeline in a namespace of its own. */
export async function openPipeline(
  server: Server,
  spec: Partial<PipelineSpec> & Pick<PipelineSpec, 'environments'>,
  options: { readonly name?: string; readonly namespace?: string } = {},
) {
  const { kube, plane } = server
  const { name = 'podinfo', namespace = await plane.namespace() } = options
  const at = { ...PIPELINE, namespace, name }
  const create = (more: Partial<PipelineSpec> = {}) =>
    kube.create({
      ...PIPELINE,
      metadata: { namespace, name },
      spec: { appRef: { ...HELM_RELEASE, name: 'podinfo' }, ...spec, ...more },
    })
  const patch = (body: object) => kube.patch(at, { type: 'merge', body: body as Record<string, unknown> })
  const read = async (): Promise<PipelineRecord> => toPipelineRecord(await kube.get(at))
  const promotions = async (): Promise<PromotionRecord[]> => {
    const { items } = await kube.list(PROMOTION, { namespace })
    return items
      .flatMap((item) => toPromotionRecord(item) ?? [])
      .filter((promotion) => promotion.spec.pipelineRef.name === name)
      .toSorted((a, b) => a.spec.run - b.spec.run || b.spec.environment.localeCompare(a.spec.environment) || a.spec.series - b.spec.series)
  }
  const events = async (): Promise<{ reason: string; message: string; type: string; object: string }[]> => {
    const { items } = await kube.list({ apiVersion: 'v1', kind: 'Event' }, { namespace })
    // In the order in which they were written.
    const sorted = items.toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion))
    return sorted.map((event) => ({
      reason: String(event['reason']),
      message: String(event['message']),
      type: String(event['type']),
      object: String((event['involvedObject'] as { name?: string } | undefined)?.name),
    }))
  }
  const condition = async (type: string) => (await read()).status.conditions?.find((each) => each.type === type)
  const phases = async (): Promise<string[]> =>
    (await promotions()).map(({ spec: of, status }) => `${of.run} ${of.environment} ${of.revision} ${status.phase ?? 'Pending'}`)
  return {
    namespace,
    name,
    key: `${namespace}/${name}`,
    create,
    read,
    promotions,
    events,
    condition,
    patch,
    /**
     * Creates the Pipeline and lets it act when the status and every controller show all targets ready on the revision. Events of a Pipeline
     * and of its applications have no common order: a pass in between would promote into an environment that it has not seen yet.
     */
    async createSettled(revision: string) {
      await create({ suspend: true })
      await waitFor(
        `all targets on ${revision}`,
        async () => {
          const shown = Object.values((await read()).status.environments ?? {})
          const seen = listRunning(server).map((controller) => controller.explain(`${namespace}/${name}`)?.observed ?? [])
          const isSettled = (environments: readonly SeenEnvironment[]) =>
            environments.length === spec.environments.length &&
            environments.every(({ targets = [] }) => targets.every((target) => target.ready && target.revision === revision))
          return [shown, ...seen].every(isSettled)
        },
        { limitMs: 60_000, onTimeout: async () => JSON.stringify((await read()).status) },
      )
      if (spec.suspend !== true) await patch({ spec: { suspend: false } })
    },
    patchStatus: (status: object) => kube.patch(at, { type: 'merge', body: { status } }, { subresource: 'status' }),
    delete: () => kube.delete(at),
    phases,
    /** Waits for the phases of all promotions, written as `run environment revision phase`. */
    waitForPhases: (...expected: string[]) =>
      waitFor(`phases ${expected.join(', ')}`, async () => JSON.stringify(await phases()) === JSON.stringify(expected), {
        limitMs: 60_000,
        onTimeout: async () =>
          JSON.stringify([await phases(), (await promotions()).map(({ status }) => status), (await read()).status.conditions]),
      }),
    patchPromotion: (promotionName: string, status: object) =>
      kube.patch({ ...PROMOTION, namespace, name: promotionName }, { type: 'merge', body: { status } }, { subresource: 'status' }),
    /** The only reason of Ready True is ReconciliationSucceeded. */
    waitForReady: (reason: string) =>
      waitFor(
        `Ready with reason ${reason}`,
        async () => {
          const ready = await condition('Ready')
          return ready?.reason === reason && ready.status === (reason === 'ReconciliationSucceeded' ? 'True' : 'False') && ready
        },
        { limitMs: 60_000, onTimeout: async () => JSON.stringify((await read()).status) },
      ),
    waitForPending: (reason: string | null) =>
      waitFor(`PromotionPending with reason ${reason}`, async () => ((await condition('PromotionPending'))?.reason ?? null) === reason, {
        limitMs: 60_000,
        onTimeout: async () => JSON.stringify((await read()).status),
      }),
    target: async (environment: string, index = 0) => (await read()).status.environments?.[environment]?.targets?.[index],
    waitForTarget: (environment: string, seen: { ready?: boolean; revision?: string; error?: RegExp | null }, limitMs = 60_000) =>
      waitFor(
        `target of ${environment} to be ${JSON.stringify(seen)}`,
        async () => {
          const target = (await read()).status.environments?.[environment]?.targets?.[0]
          if (target === undefined || (seen.ready !== undefined && target.ready !== seen.ready)) return false
          if (seen.revision !== undefined && target.revision !== seen.revision) return false
          return seen.error === undefined || (seen.error === null ? target.error === undefined : seen.error.test(target.error ?? ''))
        },
        { limitMs, onTimeout: async () => JSON.stringify((await read()).status) },
      ),
  }
}

/** Applies an application object and, where given, its status, as its own controller would. */
export async function setApp(
  kube: Kube,
  kind: Kind,
  at: { namespace: string; name?: string },
  status?: Record<string, unknown>,
  spec: Record<string, unknown> = {},
): Promise<void> {
  const ref = { ...kind, namespace: at.namespace, name: at.name ?? 'podinfo' }
  const before = await kube.find(ref)
  const object = before ?? (await kube.create({ ...kind, metadata: { namespace: ref.namespace, name: ref.name }, spec }))
  if (status === undefined) return
  const withGeneration = { observedGeneration: object.metadata.generation ?? 1, ...status }
  await kube.patch(ref, { type: 'merge', body: { status: withGeneration } }, { subresource: 'status' })
}

/** HelmRelease that is ready on a chart version. */
export const setRelease = (kube: Kube, namespace: string, revision: string, ready = true): Promise<void> =>
  setApp(
    kube,
    HELM_RELEASE,
    { namespace },
    { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }], lastAppliedRevision: revision },
  )

export async function ensureNamespace(kube: Kube, name: string): Promise<void> {
  await kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }).catch((error: unknown) => {
    if (!hasReason(error, 'AlreadyExists')) throw error
  })
}

/** A GitopsCluster with its kubeconfig Secret. */
export async function setCluster(
  kube: Kube,
  at: { namespace: string; name: string },
  options: { kubeconfig?: string; key?: string; capi?: boolean; ready?: boolean },
): Promise<void> {
  const secretName = options.capi ? `${at.name}-kubeconfig` : `${at.name}-access`
  if (options.kubeconfig !== undefined)
    await kube.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: at.namespace, name: secretName },
      data: { [options.key ?? 'kubeconfig']: Buffer.from(options.kubeconfig).toString('base64') },
    })
  const spec = options.capi ? { capiClusterRef: { name: at.name } } : { secretRef: { name: secretName } }
  await kube.create({ ...GITOPS_CLUSTER, metadata: at, spec })
  if (options.ready !== undefined) await setClusterReady(kube, at, options.ready)
}

export async function setClusterReady(kube: Kube, at: { namespace: string; name: string }, ready: boolean): Promise<void> {
  const body = { status: { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] } }
  await kube.patch({ ...GITOPS_CLUSTER, ...at }, { type: 'merge', body }, { subresource: 'status' })
}

/** A kubeconfig with a token, for an address in front of a server. */
export const kubeconfigFor = (server: string, user: string, caPem?: string): string => `
apiVersion: v1
kind: Config
current-context: c
contexts: [{ name: c, context: { cluster: c, user: u } }]
clusters: [{ name: c, cluster: { server: "${server}"${caPem === undefined ? '' : `, certificate-authority-data: ${Buffer.from(caPem).toString('base64')}`} } }]
users: [{ name: u, user: ${user} }]
`
