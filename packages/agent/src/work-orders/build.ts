// A build order: a Shipwright Build is applied, one BuildRun of it is made for this attempt, and its end is the order's end. A
// BuildRun that an earlier process of ours made for the same attempt is gone on with.
import { hasReason } from '@brokkr/kube/api-error.ts'
import { rowsAt, textAt } from '@brokkr/kube/fields.ts'
import { groupOf, type KubeObject, type ObjectRef, selectorOf } from '@brokkr/kube/object.ts'
import { API_RETRY, retrying } from '@brokkr/kube/retry.ts'
import { applyOrder, marked, prepareOrder } from './apply-order.ts'
import { failed, OPERATIONS_MANAGER, type Order, type OrderDeps, type OrderResult, succeeded } from './order.ts'
import { tellOutput } from './output.ts'

const group = 'shipwright.io'
const apiVersion = `${group}/v1beta1`

export async function carryOutBuild(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<OrderResult> {
  const prepared = await prepareOrder(deps, order, signal)
  if (!prepared.ok) return prepared.result
  const builds = prepared.objects.filter((object) => object.kind === 'Build' && groupOf(object.apiVersion) === group)
  const [build] = builds
  if (build === undefined || builds.length > 1)
    return failed(`a build order holds exactly one Build of ${apiVersion}, and this one holds ${builds.length}`, false)
  const problem = await applyOrder(deps, order, prepared.objects, signal)
  if (problem !== null) return problem
  const run = runOf(build, order, deps.agentId)
  await makeRun(deps, run, signal)
  const { namespace, name } = run.metadata
  const result = await watchRun(deps, { apiVersion, kind: 'BuildRun', namespace, name }, signal)
  await tellOutput(deps, order, [{ namespace, labelSelector: selectorOf({ 'buildrun.shipwright.io/name': name }) }], signal)
  return result
}

export const runName = (build: string, { id, attempt }: Pick<Order, 'id' | 'attempt'>): string => `${build}-${id.slice(0, 8)}-${attempt}`

function runOf(build: KubeObject, order: Order, agentId: string): KubeObject {
  const { name, namespace } = build.metadata
  const metadata = {
    name: runName(name, order),
    ...(namespace === undefined ? {} : { namespace }),
    labels: { 'shipwright.io/build': name },
  }
  return marked({ apiVersion, kind: 'BuildRun', metadata, spec: { build: { name } } }, order, agentId)
}

async function makeRun(deps: OrderDeps, run: KubeObject, signal: AbortSignal): Promise<void> {
  try {
    await retrying(deps, API_RETRY, () => deps.kube.create(run, { fieldManager: OPERATIONS_MANAGER, signal }), signal)
  } catch (error) {
    // Its name holds order and attempt: whoever made it was this attempt.
    if (!hasReason(error, 'AlreadyExists')) throw error
  }
}

async function watchRun(deps: OrderDeps, ref: ObjectRef, signal: AbortSignal): Promise<OrderResult> {
  const untilMs = deps.clock.monotonicMs() + deps.buildMs
  try {
    while (deps.clock.monotonicMs() < untilMs) {
      const run = await retrying(deps, API_RETRY, () => deps.kube.find(ref, { signal }), signal)
      if (run === undefined) return failed(`BuildRun ${ref.name} was deleted while it ran`, true)
      const result = resultOf(run)
      if (result !== null) return result
      await deps.clock.sleep(deps.checkMs, signal)
    }
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'TimeoutError') throw error
  }
  await cancel(deps, ref)
  return failed(`the build took longer than it may and was cancelled`, true)
}

export function resultOf(run: KubeObject): OrderResult | null {
  const end = rowsAt(run, 'status', 'conditions').find(({ type }) => type === 'Succeeded')
  if (end?.['status'] === 'True') return succeeded(textAt(run, 'status', 'output', 'digest') ?? 'the build succeeded')
  if (end?.['status'] !== 'False') return null
  return failed([textAt(end, 'reason'), textAt(end, 'message')].filter(Boolean).join(': ') || 'the build failed', false)
}

async function cancel(deps: OrderDeps, ref: ObjectRef): Promise<void> {
  const patch = { type: 'merge', body: { spec: { state: 'BuildRunCanceled' } } } as const
  await deps.kube.patch(ref, patch, { fieldManager: OPERATIONS_MANAGER, timeoutMs: 10_000 }).catch(() => undefined)
}
