// Replaces the signing secret. The old secret signs too for one more day, so that receivers can switch without rejecting messages.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../../audit/record.ts'
import type { Actor } from '../../../audit/rules.ts'
import type { Seal } from '../../../seal.ts'
import { createSigningSecret } from '../../delivery/sign.ts'
import { toWebhookContext } from '../sealed-parts.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'

const oldSeconds = 86_400

export async function rotateWebhookSecret(
  deps: { sql: Sql; seal: Seal; wakeFeed: () => void },
  { id, actor }: { id: string; actor: Actor },
): Promise<{ signing_secret: string }> {
  const signing_secret = createSigningSecret()
  const { seal } = deps
  await deps.sql.begin(async (sql) => {
    const before = await webhookSubscriptions.lockSecret(sql, { id })
    if (before === null) throw new ApiError('webhook_not_found', 'no such webhook')
    // An old secret that no key opens cannot sign and is dropped.
    const isKept = seal.canOpen(toWebhookContext('secret', id), before.secret_sealed)
    await webhookSubscriptions.rotateSecret(sql, {
      id,
      secret_sealed: seal.seal(toWebhookContext('secret', id), signing_secret),
      old_secret_sealed: isKept
        ? seal.seal(toWebhookContext('old_secret', id), seal.open(toWebhookContext('secret', id), before.secret_sealed))
        : null,
      old_seconds: oldSeconds,
    })
    await recordAuditEntry(sql, { actor, action: 'webhook.secret_rotated', resource: { type: 'webhook_subscription', id } })
  })
  deps.wakeFeed()
  return { signing_secret }
}
