// Signatures of requests: HMAC over method, path, time, nonce and body. The older form covers the body alone. Pure.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'

export interface SignedRequest {
  readonly method: string
  /** Path and query as sent. */
  readonly target: string
  readonly body: Uint8Array
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

export type Signature =
  | { readonly form: 'none' }
  | { readonly form: 'malformed'; readonly problem: string }
  /** HMAC of the body alone: it may be repeated and moved to another path. */
  | { readonly form: 'legacy'; readonly algorithm: string; readonly digest: Buffer }
  | {
      readonly form: 'full'
      readonly algorithm: string
      readonly digest: Buffer
      readonly timestampSeconds: number
      readonly nonce: string
      /** Person for whom the holder of the key speaks. */
      readonly approver: string | null
    }

export const CLOCK_SECONDS_MAX = 300

const digestLengths: Readonly<Record<string, number>> = { sha224: 28, sha256: 32, sha384: 48, sha512: 64 }

export function readSignature({ headers }: Pick<SignedRequest, 'headers'>): Signature {
  const text = single(headers['x-signature'])
  if (text === null) return { form: 'none' }
  const match = /^(sha224|sha256|sha384|sha512)=([0-9a-f]{56,128})$/.exec(text)
  const [, algorithm = '', hex = ''] = match ?? []
  if (match === null || hex.length !== 2 * (digestLengths[algorithm] ?? 0))
    return { form: 'malformed', problem: 'X-Signature must be an algorithm, = and the digest in lower-case hexadecimal' }
  const digest = Buffer.from(hex, 'hex')
  const [timestamp, nonce] = [single(headers['x-signature-timestamp']), single(headers['x-signature-nonce'])]
  if (timestamp === null && nonce === null) return { form: 'legacy', algorithm, digest }
  if (algorithm === 'sha224') return { form: 'malformed', problem: 'use sha256, sha384 or sha512' }
  if (timestamp === null || !/^\d{1,12}$/.test(timestamp))
    return { form: 'malformed', problem: 'X-Signature-Timestamp must be a time in unix seconds' }
  if (nonce === null || !/^[A-Za-z0-9_-]{16,64}$/.test(nonce))
    return { form: 'malformed', problem: 'X-Signature-Nonce must have 16 to 64 letters, digits, - or _' }
  return { form: 'full', algorithm, digest, timestampSeconds: Number(timestamp), nonce, approver: single(headers['x-approver']) }
}

export function toSignedText(
  request: Pick<SignedRequest, 'method' | 'target' | 'body'>,
  facts: { readonly timestamp: string; readonly nonce: string; readonly approver: string | null },
): string {
  const bodyHash = createHash('sha256').update(request.body).digest('hex')
  const lines = [request.method, request.target, facts.timestamp, facts.nonce, bodyHash]
  return [...lines, ...(facts.approver === null ? [] : [facts.approver])].join('\n')
}

/** Whether one of the keys made the signature. Every key is tried, so that the time does not tell which one fits. */
export function findSigningKey<Key extends { readonly bytes: Uint8Array }>(
  request: SignedRequest,
  signature: Extract<Signature, { form: 'full' | 'legacy' }>,
  keys: readonly Key[],
): Key | null {
  const text =
    signature.form === 'legacy'
      ? request.body
      : toSignedText(request, {
          // As sent: leading zeros are part of the signed text.
          timestamp: single(request.headers['x-signature-timestamp']) ?? '',
          nonce: signature.nonce,
          approver: signature.approver,
        })
  const fitting = keys.filter(({ bytes }) => {
    const expected = createHmac(signature.algorithm, bytes).update(text).digest()
    return expected.length === signature.digest.length && timingSafeEqual(expected, signature.digest)
  })
  return fitting[0] ?? null
}

export const isTimely = (timestampSeconds: number, nowMs: number): boolean => Math.abs(nowMs / 1000 - timestampSeconds) <= CLOCK_SECONDS_MAX

/** A header that was sent twice counts as absent. Node joins most of them with a comma, which no form above accepts. */
const single = (value: string | string[] | undefined): string | null => (typeof value === 'string' ? value : null)
