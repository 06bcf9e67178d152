// Stack: one deployment object per target stack, submitted to our broker under a key of the promotion. `Copy` submits the object with the
// promoted checksum unchanged; `Marker` edits the marked values of the target's head.
import { ApiError } from '@brokkr/contract/errors.ts'
import { hasReason } from '@brokkr/kube'
import { errorText, Terminal } from '@brokkr/runtime/errors.ts'
import { editMarkers, MarkerError } from '../git/markers.ts'
import { BrokerClient, type StackHead } from '../stacks/broker-client.ts'
import type { BrokerClients } from '../stacks/broker-clients.ts'
import { toStackAccess } from '../stacks/stack-access.ts'
import type { AttemptFailure, AttemptInput, AttemptResult, Strategy } from './strategy.ts'

export interface StackStrategyDeps {
  readonly brokers: BrokerClients
  /** Address of the broker for strategies that name none. */
  readonly brokerUrl: string | null
}

export function stackStrategy(deps: StackStrategyDeps): Strategy {
  return {
    kind: 'stack',
    handles: (spec) => spec.stack !== undefined,
    async run(input) {
      const seen: { secretVersion?: string } = {}
      const result = await attempt(deps, input, seen).catch((error: unknown) => {
        input.signal.throwIfAborted()
        if (hasReason(error, 'Conflict')) throw error
        return toFailure(error)
      })
      return result.outcome === 'failed' && result.class === 'configuration' ? { ...result, blockedOn: seen } : result
    },
  }
}

/** `seen` gets what was read, so that its change ends a block. */
async function attempt(deps: StackStrategyDeps, input: AttemptInput, seen: { secretVersion?: string }): Promise<AttemptResult> {
  const spec = input.promotion.spec.strategy.stack!
  const access = toStackAccess(input.pipeline, spec, deps.brokerUrl)
  if ('error' in access) return failed('configuration', 'InvalidBrokerURL', access.error)
  const secret = await input.readSecret(spec.secretRef.name)
  seen.secretVersion = secret?.version ?? ''
  const broker = deps.brokers.open(access, secret)
  if (!(broker instanceof BrokerClient)) return failed('configuration', broker.reason, broker.error)
  const ids: string[] = []
  for (const [index, target] of input.targets.entries()) {
    const result = await submit(broker, input, { index, stack: target.stack, mode: access.mode })
    if (typeof result !== 'string') return result
    ids.push(result)
    if ((await input.saveProgress({ kind: 'stack', deploymentObjectIds: ids })) === 'stop') return { outcome: 'stopped' }
  }
  return { outcome: 'applied', effect: { kind: 'stack', deploymentObjectIds: ids } }
}

/** Id of the deployment object that brings the revision: the head where it is right already, else a new one (E1). */
async function submit(
  broker: BrokerClient,
  input: AttemptInput,
  at: { index: number; stack: string; mode: 'Copy' | 'Marker' },
): Promise<string | AttemptFailure> {
  const { spec } = input.promotion
  const head = await broker.readHead(at.stack, { content: at.mode === 'Marker' }, input.signal)
  if (head === null) return failed('configuration', 'StackNotFound', `the generator has no stack "${at.stack}"`)
  if (at.mode === 'Copy' && head.object?.yaml_checksum === spec.revision) return head.object.id
  const manifest = at.mode === 'Copy' ? await findManifest(broker, input) : editHead(head, input, at.stack)
  if (manifest === null) return failed('refusal', 'RevisionNotFound', `no earlier environment has a deployment object ${spec.revision}`)
  if (head.object !== null && manifest === head.object.yaml_content) return head.object.id
  return (await broker.submit(head.stackId, { manifest, key: `${spec.key}-${at.index}` }, input.signal)).id
}

async function findManifest(broker: BrokerClient, input: AttemptInput): Promise<string | null> {
  for (const { stack } of input.earlierTargets.toReversed()) {
    const manifest = await broker.findManifest(stack, input.promotion.spec.revision, input.signal)
    if (manifest !== null) return manifest
  }
  return null
}

function editHead({ object }: StackHead, { pipeline, promotion }: AttemptInput, stack: string): string {
  const owner = `${pipeline.namespace}:${pipeline.name}:${promotion.spec.environment}`
  const edit = { path: stack, owner, revision: promotion.spec.revision }
  const content = object === null ? null : editMarkers(Buffer.from(object.yaml_content), edit)
  if (content === null) throw new MarkerError('MarkerNotFound', `stack "${stack}" has no deployment object with a marker for ${owner}`)
  return Buffer.from(content).toString('utf8')
}

const failed = (kind: AttemptFailure['class'], reason: string, message: string): AttemptFailure => ({
  outcome: 'failed',
  class: kind,
  reason,
  message,
})

const RATE_LIMIT_SECONDS = 60

function toFailure(error: unknown): AttemptFailure {
  if (error instanceof MarkerError) return failed('configuration', error.reason, error.message)
  if (error instanceof ApiError) return classifyApiError(error)
  if (error instanceof Terminal) return failed('configuration', 'BrokerAddressRefused', errorText(error))
  return failed('transient', 'BrokerUnreachable', errorText(error))
}

function classifyApiError(error: ApiError): AttemptFailure {
  const message = `the broker answered ${error.status}: ${error.message}`
  if (error.status === 429)
    return { ...failed('rate-limited', 'RateLimited', message), retryAfterMs: (error.retryAfterSeconds ?? RATE_LIMIT_SECONDS) * 1000 }
  // 409: the same submission is in progress, or another writer moved the stack.
  if (error.status >= 500 || error.status === 409) return failed('transient', 'BrokerFailed', message)
  const reasons: Record<number, string> = { 401: 'AuthenticationFailed', 403: 'AccessForbidden', 404: 'StackNotFound' }
  return failed('configuration', reasons[error.status] ?? 'BrokerRefusedRequest', message)
}
