// Remains of the public operator that a flow owns: its spec in a ConfigMap in clear text, its finalizers, and its objects under newer names.
// They are removed or migrated; objects that the flow does not own stay.
import { checkpointKey } from '@brokkr/contract/dataflow/checkpoint.ts'
import { controllerOf, type Kube, type KubeObject, numberAt, type ObjectRef, textAt } from '@brokkr/kube'
import { checkpointName, fieldManager, type Owner, secretName } from '../names.ts'
import { type FlowEvent, normal } from '../status/events.ts'
import { findJobEnd } from '../status/jobs.ts'
import { NameTaken } from './children.ts'

export interface RemainsResult {
  /** Processor or run of the public operator that still goes on; undefined: nothing is left. */
  readonly waitsFor: string | undefined
  readonly events: readonly FlowEvent[]
}

export async function removeRemains(kube: Kube, owner: Owner, signal: AbortSignal): Promise<RemainsResult> {
  const events: FlowEvent[] = []
  const namespace = owner.metadata.namespace ?? ''
  const short = `${owner.kind === 'DataFlowCron' ? 'dfc' : 'df'}-${owner.metadata.name}`
  const find = (apiVersion: string, kind: string, name: string) => findOwned(kube, owner, { apiVersion, kind, namespace, name }, signal)
  for (const name of [secretName(owner), `${short}-spec`]) {
    const plain = await find('v1', 'ConfigMap', name)
    if (plain === undefined) continue
    await remove(kube, plain, signal)
    events.push(normal('PlaintextSpecRemoved', `ConfigMap ${name} contained the spec with its secrets in clear text`))
  }
  const deployment = await find('apps/v1', 'Deployment', short)
  if (deployment !== undefined && !(await isScaledDown(kube, deployment, signal))) return { waitsFor: `Deployment ${short}`, events }
  const cronJob = await find('batch/v1', 'CronJob', short)
  const waitsFor = cronJob === undefined ? undefined : await findActive(kube, cronJob, signal)
  if (waitsFor !== undefined) return { waitsFor, events }
  const checkpoint = await find('v1', 'ConfigMap', `${short}-checkpoint`)
  if (checkpoint !== undefined) {
    await copyCheckpoint(kube, owner, checkpoint, signal)
    await remove(kube, checkpoint, signal)
  }
  if (deployment !== undefined) await remove(kube, deployment, signal)
  if (cronJob !== undefined) await remove(kube, cronJob, signal)
  return { waitsFor: undefined, events }
}

async function findOwned(kube: Kube, owner: Owner, ref: ObjectRef, signal: AbortSignal): Promise<KubeObject | undefined> {
  const live = await kube.find(ref, { signal })
  return controllerOf(live ?? { ...ref, metadata: { name: ref.name } })?.uid === owner.metadata.uid ? live : undefined
}

async function isScaledDown(kube: Kube, deployment: KubeObject, signal: AbortSignal): Promise<boolean> {
  const { apiVersion, kind, metadata } = deployment
  const ref = { apiVersion, kind, namespace: metadata.namespace, name: metadata.name }
  if (numberAt(deployment, 'spec', 'replicas') !== 0)
    await kube.patch(ref, { type: 'merge', body: { spec: { replicas: 0 } } }, { fieldManager, signal })
  const observed = numberAt(deployment, 'status', 'observedGeneration') ?? 0
  const isSettled = numberAt(deployment, 'spec', 'replicas') === 0 && observed >= (metadata.generation ?? 0)
  return isSettled && (numberAt(deployment, 'status', 'replicas') ?? 0) === 0
}

/** Suspended first, so that no run starts; a run that goes on ends by itself and saves its position. Undefined: it is at rest. */
async function findActive(kube: Kube, cronJob: KubeObject, signal: AbortSignal): Promise<string | undefined> {
  const { metadata } = cronJob
  if (cronJob.spec?.['suspend'] !== true) {
    const ref = { apiVersion: 'batch/v1', kind: 'CronJob', namespace: metadata.namespace, name: metadata.name }
    const body = { metadata: { uid: metadata.uid ?? '' }, spec: { suspend: true } }
    await kube.patch(ref, { type: 'merge', body }, { fieldManager, signal })
    return `CronJob ${metadata.name}`
  }
  const jobs = await kube.list({ apiVersion: 'batch/v1', kind: 'Job' }, { namespace: metadata.namespace, signal })
  const active = jobs.items.find((job) => controllerOf(job)?.uid === metadata.uid && findJobEnd(job) === undefined)
  return active === undefined ? undefined : `Job ${active.metadata.name}`
}

/** Only into a checkpoint that no processor of ours has written. */
async function copyCheckpoint(kube: Kube, owner: Owner, from: KubeObject, signal: AbortSignal): Promise<void> {
  const ref = { apiVersion: 'v1', kind: 'ConfigMap', namespace: owner.metadata.namespace, name: checkpointName(owner) }
  const own = await kube.find(ref, { signal })
  if (own !== undefined && controllerOf(own)?.uid !== owner.metadata.uid) throw new NameTaken(ref)
  if (own === undefined) {
    const { labels, ownerReferences } = from.metadata
    const metadata = { name: ref.name, namespace: ref.namespace ?? '', labels: labels ?? {}, ownerReferences: ownerReferences ?? [] }
    await kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: from.data ?? {} }, { fieldManager, signal })
  } else if (textAt(own, 'data', checkpointKey) === undefined)
    await kube.patch(
      ref,
      {
        type: 'merge',
        body: { metadata: { uid: own.metadata.uid ?? '', resourceVersion: own.metadata.resourceVersion ?? '' }, data: from.data ?? {} },
      },
      { fieldManager, signal },
    )
}

const remove = (kube: Kube, { apiVersion, kind, metadata }: KubeObject, signal: AbortSignal): Promise<unknown> =>
  kube.delete(
    { apiVersion, kind, namespace: metadata.namespace, name: metadata.name },
    { uid: metadata.uid, propagation: 'Background', signal },
  )
