// Build order: applies a Shipwright Build, creates one BuildRun for this attempt and waits for its end. Continues a BuildRun that an
// earlier process created for the same attempt.

import { API_RETRY, groupOf, hasReason, type KubeObject, type ObjectRef, refOf, retrying, rowsAt, selectorOf, textAt } from '@brokkr/kube'
import { applyOrder, isOfOrder, markOrderObject, prepareOrder } from './apply-order.ts'
import { OPERATIONS_MANAGER, type Order, type OrderDeps, type OrderResult, toFailure, toSuccess } from './order.ts'
import { sendOrderOutput } from './output.ts'

const group = 'shipwright.io'
const apiVersion = `${group}/v1beta1`

export async function executeBuild(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<OrderResult> {
  const prepared = await prepareOrder(deps, order, signal)
  if (!prepared.ok) return prepared.result
  const builds = prepared.objects.filter((object) => object.kind === 'Build' && groupOf(object.apiVersion) === group)
  const [build] = builds
  if (build === undefined || builds.length > 1)
    return toFailure(`a build order holds exactly one Build of ${apiVersion}, and this one holds ${builds.length}`, false)
  const problem = await applyOrder(deps, order, prepared.objects, signal)
  if (problem !== null) return problem
  const run = buildRun(build, order, deps.agentId)
  const foreign = await ensureRun(deps, order, run, signal)
  if (foreign !== null) return foreign
  const { namespace, name } = run.metadata
  const result = await watchRun(deps, { apiVersion, kind: 'BuildRun', namespace, name }, signal)
  await sendOrderOutput(deps, order, [{ namespace, labelSelector: selectorOf({ 'buildrun.shipwright.io/name': name }) }], signal)
  return result
}

const toRunName = (build: string, { id, attempt }: Pick<Order, 'id' | 'attempt'>): string => `${build}-${id.slice(0, 8)}-${attempt}`

function buildRun(build: KubeObject, order: Order, agentId: string): KubeObject {
  const { name, namespace } = build.metadata
  const metadata = {
    name: toRunName(name, order),
    ...(namespace === undefined ? {} : { namespace }),
    labels: { 'shipwright.io/build': name },
  }
  return markOrderObject({ apiVersion, kind: 'BuildRun', metadata, spec: { build: { name } } }, order, agentId)
}

/** Null: the BuildRun of this attempt exists and is recorded. */
async function ensureRun(deps: OrderDeps, order: Order, run: KubeObject, signal: AbortSignal): Promise<OrderResult | null> {
  const live = await retrying(deps, API_RETRY, () => createOrFind(deps, run, signal), signal)
  if (!isOfOrder(live, order, deps.agentId))
    return toFailure(`foreign_object: BuildRun ${run.metadata.name} exists already and is not ours`, false)
  await retrying(deps, API_RETRY, () => deps.claimed.addCreated(order, live, signal), signal)
  return null
}

async function createOrFind(deps: OrderDeps, run: KubeObject, signal: AbortSignal): Promise<KubeObject> {
  try {
    return await deps.kube.create(run, { fieldManager: OPERATIONS_MANAGER, signal })
  } catch (error) {
    // An earlier process may have created it for the same attempt.
    if (!hasReason(error, 'AlreadyExists')) throw error
    return deps.kube.get(refOf(run), { signal })
  }
}

async function watchRun(deps: OrderDeps, ref: ObjectRef, signal: AbortSignal): Promise<OrderResult> {
  const untilMs = deps.clock.monotonicMs() + deps.buildMs
  try {
    while (deps.clock.monotonicMs() < untilMs) {
      const run = await retrying(deps, API_RETRY, () => deps.kube.find(ref, { signal }), signal)
      if (run === undefined) return toFailure(`BuildRun ${ref.name} was deleted while it ran`, true)
      const result = toBuildResult(run)
      if (result !== null) return result
      await deps.clock.sleep(deps.checkMs, signal)
    }
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'TimeoutError') throw error
  }
  await cancel(deps, ref)
  return toFailure(`the build took longer than it may and was cancelled`, true)
}

export function toBuildResult(run: KubeObject): OrderResult | null {
  const end = rowsAt(run, 'status', 'conditions').find(({ type }) => type === 'Succeeded')
  if (end?.['status'] === 'True') return toSuccess(textAt(run, 'status', 'output', 'digest') ?? 'the build succeeded')
  if (end?.['status'] !== 'False') return null
  return toFailure([textAt(end, 'reason'), textAt(end, 'message')].filter(Boolean).join(': ') || 'the build failed', false)
}

async function cancel(deps: OrderDeps, ref: ObjectRef): Promise<void> {
  const patch = { type: 'merge', body: { spec: { state: 'BuildRunCanceled' } } } as const
  await deps.kube.patch(ref, patch, { fieldManager: OPERATIONS_MANAGER, timeoutMs: 10_000 }).catch(() => undefined)
}
