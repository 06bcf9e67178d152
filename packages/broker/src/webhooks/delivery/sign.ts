// Signs a delivery according to Standard Webhooks: id, time and body with a shared secret. The id is that of the delivery and equal in all
// attempts, so that a receiver can detect duplicates.
import { createHmac, randomBytes } from 'node:crypto'

const prefix = 'whsec_'

export const createSigningSecret = (): string => `${prefix}${randomBytes(32).toString('base64')}`

export interface SignatureInput {
  readonly deliveryId: string
  readonly payload: string
  readonly unixSeconds: number
  /** During a rotation: the old and the new secret. */
  readonly secrets: readonly string[]
}

export function buildSignatureHeaders({ deliveryId, payload, unixSeconds, secrets }: SignatureInput): Record<string, string> {
  const signed = `${deliveryId}.${unixSeconds}.${payload}`
  return {
    'webhook-id': deliveryId,
    'webhook-timestamp': String(unixSeconds),
    'webhook-signature': secrets
      .map((secret) => `v1,${createHmac('sha256', decodeSecret(secret)).update(signed).digest('base64')}`)
      .join(' '),
  }
}

const decodeSecret = (secret: string): Buffer => Buffer.from(secret.slice(prefix.length), 'base64')
