// Brings the objects of one flow to their desired form: secrets are resolved, then Secret, checkpoint, rights, Service and workload are
// written. Nothing is read or written while neither the flow nor its secrets, children or environment have changed.
import { randomBytes } from 'node:crypto'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { SeenOneShots } from '@brokkr/contract/dataflow/status.ts'
import { hasReason, type Kube, type KubeObject, type ObjectRef, refOf } from '@brokkr/kube'
import { planChildren } from '../desired/children.ts'
import { cronJob } from '../desired/cron-job.ts'
import { processorDeployment } from '../desired/deployment.ts'
import { hashEnvironment, type ProcessorEnvironment } from '../desired/pod.ts'
import { readSpecSecret, specSecret } from '../desired/secret.ts'
import { annotation, flowKey, secretName, workloadName } from '../names.ts'
import { type FlowEvent, normal, warning } from '../status/events.ts'
import type { PassFailure } from '../status/flow-status.ts'
import type { ClusterView } from '../watches.ts'
import { type Children, NameTaken, NotReplaceable } from './children.ts'
import { type OneShotRequests, readOneShots } from './one-shots.ts'
import { removeRemains } from './remains.ts'
import { listSecretKeys, ResolutionError, resolveFlow } from './resolve.ts'
import { isRolledOut, type UpgradePlaces } from './roll-outs.ts'

export interface ApplyDeps {
  readonly kube: Kube
  readonly view: ClusterView
  readonly children: Children
  readonly places: UpgradePlaces
  readonly hasPodMonitors: boolean
}

export interface ApplyInput {
  readonly object: KubeObject
  readonly flow: Flow
  readonly environment: ProcessorEnvironment
  readonly replicas: number
  /** Of a Cron. */
  readonly isSuspended: boolean
  readonly pods: readonly KubeObject[]
  readonly seen: SeenOneShots
  /** Takes an event as soon as its cause is written. */
  readonly record: (event: FlowEvent) => void
}

export interface Applied {
  readonly failure: PassFailure | undefined
  readonly specHash: string | undefined
  readonly requests: OneShotRequests | undefined
  /** What must happen first: a place of the upgrade is free, which wakes the flow, or something has ended. */
  readonly waitsFor: 'place' | 'end' | undefined
  /** Object of the public operator whose end the migration waits for. */
  readonly migrating?: string | undefined
}

/** Result of the last complete pass, for as long as its inputs are unchanged. */
export interface Settled {
  readonly fingerprint: string
  readonly refs: readonly ObjectRef[]
  readonly specHash: string
  readonly requests: OneShotRequests
}

/** Values of everything that decides about the desired objects. */
export function fingerprintOf({ object, flow, environment, replicas, isSuspended }: ApplyInput, view: ClusterView): string {
  const { namespace = '', uid, generation, annotations } = object.metadata
  const versions = listSecretKeys(flow, namespace).map((key) => view.secrets?.get(key)?.metadata.resourceVersion ?? '')
  return JSON.stringify([
    uid,
    generation,
    annotations,
    versions,
    hashEnvironment(environment),
    environment.secretEnv,
    replicas,
    isSuspended,
  ])
}

export async function applyFlow(deps: ApplyDeps, input: ApplyInput, signal: AbortSignal): Promise<Applied & { settled?: Settled }> {
  const fingerprint = fingerprintOf(input, deps.view)
  const fail = (failure: PassFailure): Applied => ({ failure, specHash: undefined, requests: undefined, waitsFor: undefined })
  try {
    const remains = await removeRemains(deps.kube, input.object, signal)
    for (const event of remains.events) input.record(event)
    if (remains.waitsFor !== undefined)
      return { failure: undefined, specHash: undefined, requests: undefined, waitsFor: 'end', migrating: remains.waitsFor }
    return await applyObjects(deps, input, { fingerprint, signal })
  } catch (error) {
    if (error instanceof ResolutionError) return fail({ at: 'resolved', reason: error.reason, message: error.message })
    if (error instanceof NameTaken) return fail({ at: 'applied', reason: 'NameTaken', message: error.message })
    if (error instanceof NotReplaceable || hasReason(error, 'Invalid', 'Forbidden'))
      return fail({ at: 'applied', reason: 'ApplyFailed', message: String(error) })
    throw error
  }
}

interface Pass {
  readonly fingerprint: string
  readonly signal: AbortSignal
}

async function applyObjects(deps: ApplyDeps, input: ApplyInput, pass: Pass): Promise<Applied & { settled?: Settled }> {
  const { object, flow, environment } = input
  const { signal } = pass
  const namespace = object.metadata.namespace ?? ''
  const resolved = await resolveFlow(deps, flow, { namespace, name: object.metadata.name }, signal)
  const stored = readSpecSecret(await deps.kube.find({ apiVersion: 'v1', kind: 'Secret', namespace, name: secretName(object) }, { signal }))
  const requests = readOneShots(object, stored.oneShots, input.seen)
  const salt = stored.salt ?? randomBytes(saltBytes)
  const secretPlaces = flow.secrets.map(({ keys }) => [...keys])
  const {
    object: secret,
    specHash,
    secretEnvHash,
  } = specSecret(object, resolved, {
    oneShots: requests.oneShots,
    salt,
    secretPlaces,
    secretEnv: environment.secretEnv,
  })
  const plan = planChildren(object, flow, deps)
  for (const wanted of [secret, ...plan.wanted]) {
    const { result } = await deps.children.ensure(object, wanted, signal)
    recordChange(input, wanted, result)
  }
  for (const ref of plan.unwanted) await deps.children.remove(object, ref, signal)
  const isCron = object.kind === 'DataFlowCron'
  const waitsFor = isCron
    ? await applyCronJob(deps, input, signal)
    : await applyDeployment(deps, input, { specHash, secretEnvHash, signal })
  const refs = [secret, ...plan.wanted].map(refOf)
  const settled = { fingerprint: pass.fingerprint, refs: [...refs, workloadRef(object)], specHash, requests }
  return { failure: undefined, specHash, requests, waitsFor, ...(waitsFor === undefined ? { settled } : {}) }
}

const saltBytes = 32

export const workloadRef = (object: KubeObject): ObjectRef => ({
  ...(object.kind === 'DataFlowCron' ? { apiVersion: 'batch/v1', kind: 'CronJob' } : { apiVersion: 'apps/v1', kind: 'Deployment' }),
  namespace: object.metadata.namespace,
  name: workloadName(object),
})

/** A running Job keeps its spec; the next one gets the new one. */
async function applyCronJob(deps: ApplyDeps, input: ApplyInput, signal: AbortSignal): Promise<undefined> {
  const { object, flow, environment, isSuspended } = input
  const wanted = cronJob(object, flow, { environment, isSuspended })
  const { result } = await deps.children.ensure(object, wanted, signal)
  recordChange(input, wanted, result)
  return undefined
}

interface DeploymentPass {
  readonly specHash: string
  readonly secretEnvHash: string | undefined
  readonly signal: AbortSignal
}

/** What the Deployment has to wait for: a place of the upgrade, or the end of pods that it replaces. */
async function applyDeployment(deps: ApplyDeps, input: ApplyInput, pass: DeploymentPass): Promise<Applied['waitsFor']> {
  const { object, flow, environment, replicas, pods } = input
  const { specHash, secretEnvHash, signal } = pass
  const environmentHash = hashEnvironment(environment, secretEnvHash)
  const live = deps.children.newest(workloadRef(object))
  // Created anew: two processors of one flow must never run.
  if (live === undefined && pods.length > 0) return 'end'
  const isUpgrade = live !== undefined && isEnvironmentChange(live, specHash, environmentHash)
  const takesPlace = isUpgrade && isRolledOut(live)
  if (takesPlace && !deps.places.take(live, flowKey(object))) return 'place'
  const wanted = processorDeployment(object, flow, {
    specHash,
    secretEnvHash,
    environment,
    replicas,
    isUpgrade: takesPlace || isUpgraded(live, environmentHash),
  })
  try {
    const { result, object: applied } = await deps.children.ensure(object, wanted, signal)
    if (applied !== undefined) deps.places.note(applied)
    recordChange(input, wanted, result)
    return undefined
  } catch (error) {
    if (live !== undefined) deps.places.release(live)
    if (!(error instanceof NotReplaceable)) throw error
    // A desired form that is itself invalid must not end the running processor.
    await deps.children.checkCreatable(wanted, signal)
    await deps.children.remove(object, workloadRef(object), signal)
    input.record(warning('DeploymentReplaced', `${error.message}: it is deleted and created again`))
    return 'end'
  }
}

const hashOfTemplate = (deployment: KubeObject): string | undefined =>
  (deployment.spec?.['template'] as { metadata?: { annotations?: Record<string, string> } } | undefined)?.metadata?.annotations?.[
    annotation.specHash
  ]

/** Only the environment differs: a change of the spec is the user's and is not limited. */
function isEnvironmentChange(live: KubeObject, specHash: string, environmentHash: string): boolean {
  const known = live.metadata.annotations?.[annotation.environmentHash]
  return known !== undefined && known !== environmentHash && hashOfTemplate(live) === specHash
}

/** The mark stays until the next change, so that the applied form is stable. */
const isUpgraded = (live: KubeObject | undefined, environmentHash: string): boolean =>
  live?.metadata.annotations?.[annotation.upgrading] === environmentHash

function recordChange({ record }: ApplyInput, { kind, metadata }: KubeObject, result: 'created' | 'updated' | 'unchanged'): void {
  const names: Record<string, string> = { Secret: 'Secret', Deployment: 'Deployment', CronJob: 'CronJob', ConfigMap: 'Checkpoint' }
  const name = names[kind]
  if (name === undefined || result === 'unchanged' || (kind === 'ConfigMap' && result === 'updated')) return
  record(normal(`${name}${result === 'created' ? 'Created' : 'Updated'}`, `${kind} ${metadata.name} was ${result}`))
}
