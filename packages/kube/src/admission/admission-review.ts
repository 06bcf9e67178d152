// The wire form of an admission review: a request read, a verdict written. Pure.
import { fieldsAt, flagAt, isFields, textAt, valueAt } from '../client/fields.ts'
import { decodeJson, encodeJson } from '../client/json.ts'
import type { JsonPatchStep } from '../client/kube.ts'
import type { KubeObject } from '../client/object.ts'

export interface AdmissionRequest {
  uid: string
  kind: { group: string; version: string; kind: string }
  operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT'
  namespace: string
  name: string
  user: string
  dryRun: boolean
  /** Absent for DELETE. */
  object?: KubeObject
  /** Absent for CREATE. */
  oldObject?: KubeObject
}

export interface AdmissionCause {
  field?: string
  reason?: string
  message: string
}

export type AdmissionVerdict =
  | { allowed: true; warnings?: readonly string[]; patch?: readonly JsonPatchStep[] }
  | { allowed: false; message: string; code?: number; reason?: string; causes?: readonly AdmissionCause[]; warnings?: readonly string[] }

export class BadReview extends Error {
  override readonly name = 'BadReview'
}

const OPERATIONS: ReadonlySet<string> = new Set(['CREATE', 'UPDATE', 'DELETE', 'CONNECT'])

export function readReview(text: string): AdmissionRequest {
  const request = fieldsAt(parse(text), 'request')
  const uid = textAt(request, 'uid')
  const operation = textAt(request, 'operation') ?? ''
  if (!uid || !OPERATIONS.has(operation)) throw new BadReview('the review has no request with uid and operation')
  const part = (key: string) => textAt(request, 'kind', key) ?? ''
  const object = valueAt(request, 'object')
  const oldObject = valueAt(request, 'oldObject')
  return {
    uid,
    kind: { group: part('group'), version: part('version'), kind: part('kind') },
    operation: operation as AdmissionRequest['operation'],
    namespace: textAt(request, 'namespace') ?? '',
    name: textAt(request, 'name') ?? '',
    user: textAt(request, 'userInfo', 'username') ?? '',
    dryRun: flagAt(request, 'dryRun'),
    ...(isObject(object) ? { object } : {}),
    ...(isObject(oldObject) ? { oldObject } : {}),
  }
}

function parse(text: string): unknown {
  let value: unknown
  try {
    value = decodeJson(text)
  } catch {
    throw new BadReview('the review is not JSON')
  }
  if (textAt(value, 'kind') !== 'AdmissionReview' || textAt(value, 'apiVersion') !== 'admission.k8s.io/v1')
    throw new BadReview('only AdmissionReview of admission.k8s.io/v1 is understood')
  return value
}

const isObject = (value: unknown): value is KubeObject => isFields(value) && isFields(value['metadata'])

const MESSAGE_MAX = 3_000
const CAUSES_MAX = 200

export function reviewAnswer(uid: string, verdict: AdmissionVerdict): string {
  const response = {
    uid,
    allowed: verdict.allowed,
    ...(verdict.warnings?.length ? { warnings: verdict.warnings } : {}),
    ...(verdict.allowed ? toPatchFields(verdict.patch) : { status: toStatus(verdict) }),
  }
  return encodeJson({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response })
}

const toPatchFields = (patch: readonly JsonPatchStep[] | undefined): object =>
  patch?.length ? { patchType: 'JSONPatch', patch: Buffer.from(encodeJson(patch)).toString('base64') } : {}

function toStatus(verdict: AdmissionVerdict & { allowed: false }): object {
  return {
    status: 'Failure',
    code: verdict.code ?? 422,
    reason: verdict.reason ?? 'Invalid',
    message: verdict.message.length > MESSAGE_MAX ? `${verdict.message.slice(0, MESSAGE_MAX - 1)}…` : verdict.message,
    ...(verdict.causes?.length ? { details: { causes: verdict.causes.slice(0, CAUSES_MAX) } } : {}),
  }
}
