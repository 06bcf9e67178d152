// Who sends a request: a bearer token, the key of the Pipeline's Secret, a key that vouches for persons, or, for hints, anyone.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Kube } from '@brokkr/kube'
import { effectivePolicy } from '../decide/policy.ts'
import type { PipelineRecord } from '../objects.ts'
import { type HookRequest, Refusal } from './answer.ts'
import type { HooksContext } from './deps.ts'
import { type Access, identifyByToken, mayCarryToken, type Subject } from './identity.ts'
import { findSigningKey, isTimely, readSignature, type Signature } from './signature.ts'

export interface Demand {
  readonly access: Access
  /** `hint`: under Watch it only wakes the Pipeline, so it may be unsigned where no Secret is named. `event`: a hint that starts runs under Webhook. */
  readonly kind: 'hint' | 'event' | 'action'
  /** Null: the request concerns no single Pipeline. */
  readonly pipeline: PipelineRecord | null
  /** Secret of the hook; null: none is named. */
  readonly secretName: string | null
}

interface Key {
  readonly bytes: Uint8Array
  /** Null: the key vouches for the person in X-Approver. */
  readonly subject: string | null
}

/** An environment's promotion without a Secret of its own inherits the pipeline's: an override never opens a hook. */
export function hookSecretOf(spec: PipelineSpec, environment: string | null): string | null {
  const own = spec.environments.find(({ name }) => name === environment)?.promotion?.strategy.secretRef
  return (own ?? spec.promotion?.strategy.secretRef)?.name ?? null
}

/** Before anything is read: a caller without an identity learns nothing about what exists, and costs no call to the API server. */
export function requireCredentials({ headers }: HookRequest): void {
  if (headers['authorization'] === undefined && headers['x-signature'] === undefined)
    throw new Refusal(401, 'a signature or a bearer token is needed')
}

/** Null: anonymous, which only hints and events may be. Throws Refusal 401, 403, 409 or 429. */
export async function authenticate(context: HooksContext, request: HookRequest, demand: Demand): Promise<Subject | null> {
  const authorization = request.headers['authorization']
  if (typeof authorization === 'string') return byToken(context, request, demand, authorization)
  const signature = readSignature(request)
  if (signature.form === 'malformed') throw new Refusal(401, signature.problem)
  if (signature.form === 'full') return bySignature(context, request, demand, signature)
  if (signature.form === 'legacy' && demand.secretName !== null) return byLegacySignature(context, request, demand, signature)
  return asAnonymous(context, demand)
}

async function byToken(context: HooksContext, request: HookRequest, demand: Demand, authorization: string): Promise<Subject> {
  const [, token] = /^Bearer ([\x21-\x7e]{1,16000})$/i.exec(authorization) ?? []
  if (token === undefined) throw new Refusal(401, 'Authorization must be Bearer and a token')
  if (!mayCarryToken(request.connection)) throw new Refusal(401, 'bearer tokens are accepted only over TLS or from this host')
  const result = await identifyByToken(context.kube, token, demand.access, request.signal)
  if (result.outcome === 'allowed') return result.subject
  if (result.outcome === 'unknown') throw new Refusal(401, 'the token is not valid')
  const { verb, resource, namespace } = demand.access
  throw new Refusal(403, `the caller may not ${verb} ${resource}${namespace === '' ? '' : ` in namespace ${namespace}`}`)
}

async function bySignature(
  context: HooksContext,
  request: HookRequest,
  demand: Demand,
  signature: Extract<Signature, { form: 'full' }>,
): Promise<Subject> {
  const key = findSigningKey(request, signature, [...(await readKeys(context.kube, demand, request.signal)), ...vouchingKeys(context)])
  if (key === null) throw new Refusal(401, 'the signature is not valid')
  if (!isTimely(signature.timestampSeconds, context.clock.now()))
    throw new Refusal(401, 'the time of the signature is more than 300 seconds away')
  const subject = toSubject(key, signature.approver)
  // A read changes nothing, so its repetition is harmless.
  if (request.method !== 'GET') await useNonce(context, request, key, signature)
  return subject
}

function toSubject(key: Key, approver: string | null): Subject {
  if (key.subject !== null && approver !== null) throw new Refusal(403, 'this key may not name an approver')
  if (key.subject !== null) return subjectOf(key.subject)
  if (approver === null || !/^[^\s\p{Cc}][^\p{Cc}]{0,511}$/u.test(approver)) throw new Refusal(401, 'X-Approver must name the person')
  return subjectOf(`user:${approver}`)
}

/** A name that is its own identity: of a key, or of a person for whom another program speaks. */
const subjectOf = (name: string): Subject => ({ name, id: name, groups: [] })

async function useNonce(
  context: HooksContext,
  request: HookRequest,
  key: Key,
  signature: Extract<Signature, { form: 'full' }>,
): Promise<void> {
  const { nonce: text, timestampSeconds } = signature
  const result = await context.nonces.use({ key: key.subject ?? 'vouching', text, timestampSeconds }, request.signal)
  if (result === 'used') throw new Refusal(409, 'the nonce was used before')
  if (result === 'full') throw new Refusal(429, 'too many signed requests', { headers: { 'retry-after': '30' } })
}

async function byLegacySignature(
  context: HooksContext,
  request: HookRequest,
  demand: Demand,
  signature: Extract<Signature, { form: 'legacy' }>,
): Promise<Subject> {
  if (demand.kind === 'action') throw new Refusal(401, 'X-Signature-Timestamp and X-Signature-Nonce are needed')
  const isAllowed = isWatch(context, demand) || context.settings.allowLegacySignature
  if (!isAllowed) throw new Refusal(401, 'X-Signature-Timestamp and X-Signature-Nonce are needed where events start runs')
  const key = findSigningKey(request, signature, await readKeys(context.kube, demand, request.signal))
  if (key?.subject === undefined || key.subject === null) throw new Refusal(401, 'the signature is not valid')
  if (!isWatch(context, demand))
    warn(context, demand, 'LegacySignature', 'a promotion event with a signature of its body alone was accepted')
  return subjectOf(key.subject)
}

function asAnonymous(context: HooksContext, demand: Demand): null {
  const isOpen = demand.kind !== 'action' && demand.secretName === null
  if (isOpen && isWatch(context, demand)) return null
  if (isOpen && demand.kind === 'event' && context.settings.allowUnsignedPromotion) {
    warn(context, demand, 'UnsignedPromotion', 'a promotion event without a signature was accepted')
    return null
  }
  throw new Refusal(401, 'a signature or a bearer token is needed')
}

function isWatch({ settings }: HooksContext, { pipeline }: Demand): boolean {
  return pipeline?.spec.ok === true && effectivePolicy(pipeline.spec.spec, settings.policy).trigger === 'Watch'
}

function warn(context: HooksContext, { pipeline }: Demand, reason: string, message: string): void {
  if (pipeline !== null) context.warn(pipeline, reason, message)
}

const vouchingKeys = ({ settings }: HooksContext): Key[] => settings.vouchingKeys.map((bytes) => ({ bytes, subject: null }))

async function readKeys(kube: Kube, { pipeline, secretName }: Demand, signal: AbortSignal): Promise<Key[]> {
  if (pipeline === null || secretName === null) return []
  const secret = await kube.find({ apiVersion: 'v1', kind: 'Secret', namespace: pipeline.namespace, name: secretName }, { signal })
  const subject = `key:${pipeline.namespace}/${secretName}`
  return ['hmac-key', 'hmac-key-previous'].flatMap((name) => {
    const text = secret?.data?.[name]
    const bytes = Buffer.from(typeof text === 'string' ? text : '', 'base64')
    return bytes.length === 0 ? [] : [{ bytes, subject }]
  })
}
