// Brings the spec of a flow to its processors: Secret, then Deployment, and once the new pods are ready the orders that are done are
// taken off the object. May be called as often as one likes: what is there already is left alone.
import { randomBytes } from 'node:crypto'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { hasReason } from '@brokkr/kube/api-error.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube, Patch } from '@brokkr/kube/kube.ts'
import { type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { processorDeployment } from './desired/deployment.ts'
import { readSpecSecret, specSecret } from './desired/secret.ts'
import { annotation, fieldManager, operationsManager, secretName } from './names.ts'
import { isRolledOut, type OrderProblem, ordersOf, resetIdOf } from './orders.ts'

export interface RollOutDeps {
  readonly kube: Kube
  /** PROCESSOR_IMAGE. */
  readonly image: string
}

export interface RolledOut {
  readonly isReady: boolean
  readonly problems: readonly OrderProblem[]
  /** Whether the object's flags were taken off just now. */
  readonly hasCleared: boolean
}

const saltBytes = 32

/** `flow` is the object's own spec with its secrets resolved; `replicas` what is wanted at this moment. */
export async function rollOut(deps: RollOutDeps, object: KubeObject, flow: Flow, replicas: number): Promise<RolledOut> {
  const { kube, image } = deps
  const place = { apiVersion: 'v1', kind: 'Secret', namespace: object.metadata.namespace ?? '', name: secretName(object.metadata.name) }
  const before = readSpecSecret(await kube.find(place))
  const { oneShots, problems } = ordersOf(object, before.oneShots)
  const { object: secret, specHash } = specSecret(object, flow, { oneShots, salt: before.salt ?? randomBytes(saltBytes) })
  await kube.apply(secret, { fieldManager, force: true })
  const deployment = await applyDeployment(kube, processorDeployment(object, flow, { specHash, image, replicas }))
  const isReady = isRolledOut(deployment, specHash)
  const isDone = isReady && resetIdOf(object) !== undefined && resetIdOf(object) === oneShots.resetId
  return { isReady, problems, hasCleared: isDone && (await clearReset(kube, object)) }
}

/** Only when what is wanted differs from what was last applied: defaults of the API server never cause a write. */
async function applyDeployment(kube: Kube, wanted: KubeObject): Promise<KubeObject> {
  const present = await kube.find(refOf(wanted))
  const hash = wanted.metadata.annotations?.[annotation.appliedHash]
  if (present !== undefined && textAt(present, 'metadata', 'annotations', annotation.appliedHash) === hash) return present
  return (await kube.apply(wanted, { fieldManager, force: true })).object
}

/** Over the very version that was judged: an order given meanwhile stays. */
async function clearReset(kube: Kube, object: KubeObject): Promise<boolean> {
  const { resourceVersion } = object.metadata
  const body = {
    metadata: { ...(resourceVersion === undefined ? {} : { resourceVersion }), annotations: { [annotation.resetCheckpoint]: null } },
    ...(object.spec?.['checkpointReset'] === undefined ? {} : { spec: { checkpointReset: null } }),
  }
  try {
    await kube.patch(refOf(object), { type: 'merge', body } satisfies Patch, { fieldManager: operationsManager })
    return true
  } catch (error) {
    if (hasReason(error, 'Conflict')) return false
    throw error
  }
}
