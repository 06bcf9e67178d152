// Signs a message as Standard Webhooks has it: id, time and body under a secret that only the receiver shares. The id is the delivery's,
// the same in all its tries, so that a receiver can tell what it has already.
import { createHmac, randomBytes } from 'node:crypto'

const prefix = 'whsec_'

export const makeSigningSecret = (): string => `${prefix}${randomBytes(32).toString('base64')}`

export interface Signing {
  readonly deliveryId: string
  readonly payload: string
  readonly unixSeconds: number
  /** While a secret is replaced the message is signed with both. */
  readonly secrets: readonly string[]
}

export function signatureHeaders({ deliveryId, payload, unixSeconds, secrets }: Signing): Record<string, string> {
  const signed = `${deliveryId}.${unixSeconds}.${payload}`
  return {
    'webhook-id': deliveryId,
    'webhook-timestamp': String(unixSeconds),
    'webhook-signature': secrets.map((secret) => `v1,${createHmac('sha256', keyOf(secret)).update(signed).digest('base64')}`).join(' '),
  }
}

const keyOf = (secret: string): Buffer => Buffer.from(secret.slice(prefix.length), 'base64')
