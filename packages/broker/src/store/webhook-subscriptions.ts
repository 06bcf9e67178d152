// Webhook subscriptions. Address, credential and secrets are sealed columns; callers open them with the row's own id.
import { z } from 'zod'
import { rows } from './sql.ts'

const Enabled = z.object({ id: z.string(), event_types: z.array(z.string()), filters: z.unknown() })
export type EnabledRow = z.output<typeof Enabled>

/** What matching needs, of all that are to be told of anything. */
export const enabled = rows(
  'webhook_subscriptions.enabled',
  Enabled,
  () => `select id, event_types, filters from webhook_subscriptions where enabled`,
)
