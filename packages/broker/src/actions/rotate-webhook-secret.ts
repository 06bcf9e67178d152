// A new secret to sign deliveries with. The old one signs too for another day, so that receivers can change theirs in peace.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import type { Seal } from '../seal.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'
import { placeOf } from '../webhooks/sealed-parts.ts'
import { makeSigningSecret } from '../webhooks/sign.ts'

const oldSeconds = 86_400

export async function rotateWebhookSecret(
  deps: { sql: Sql; seal: Seal; wakeFeed: () => void },
  { id, by }: { id: string; by: Actor },
): Promise<{ signing_secret: string }> {
  const signing_secret = makeSigningSecret()
  const { seal } = deps
  await deps.sql.begin(async (sql) => {
    const before = await webhookSubscriptions.lockSecret(sql, { id })
    if (before === null) throw new ApiError('webhook_not_found', 'no such webhook')
    // One that no key opens signs nothing any more; the new one takes its place all the same.
    const isKept = seal.opens(placeOf('secret', id), before.secret_sealed)
    await webhookSubscriptions.rotateSecret(sql, {
      id,
      secret_sealed: seal.seal(placeOf('secret', id), signing_secret),
      old_secret_sealed: isKept ? seal.seal(placeOf('old_secret', id), seal.open(placeOf('secret', id), before.secret_sealed)) : null,
      old_seconds: oldSeconds,
    })
    await recordDeed(sql, { by, action: 'webhook.secret_rotated', on: { type: 'webhook_subscription', id } })
  })
  deps.wakeFeed()
  return { signing_secret }
}
