// Webhook subscriptions in lists and on their own screen.
import type { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import { requireWebhook } from '../../names.ts'
import { age } from '../../output.ts'
import { formatTable, terminalWidth } from '../../table.ts'
import { pairLines, type Resource } from '../get/resource.ts'
import { deliveryHead, deliveryRow } from './deliveries.ts'

const deliveriesMax = 10

export const webhooks: Resource<Webhook> = {
  head: ['NAME', 'ENABLED', 'EVENTS', 'SENT BY', 'AGE'],
  row: (one) => [
    one.name,
    one.enabled ? 'yes' : 'no',
    one.event_types.join(', '),
    one.target_labels === null || one.target_labels.length === 0 ? 'broker' : `agents with ${one.target_labels.join(', ')}`,
    age(one.created_at),
  ],
  wideHead: ['RETRIES', 'TIMEOUT', 'ID'],
  wideRow: (one) => [String(one.max_retries), `${one.timeout_seconds} s`, one.id],
  nameOf: ({ name }) => name,
  fields: [],
  hasLabels: false,
  pages: (client) => client.pages('listWebhooks', {}),
  kinds: ['webhook_subscription'],
  describe: async (client, name) => {
    const webhook = await requireWebhook(client, name)
    const deliveries = await client.listDeliveries({ params: { id: webhook.id }, query: { limit: deliveriesMax } })
    return {
      value: { webhook, deliveries },
      names: [webhook.name],
      scope: ['kind:webhook_subscription', 'kind:webhook_delivery'],
      lines: () => [
        ...pairLines([
          ['webhook', webhook.name],
          ['enabled', webhook.enabled ? 'yes' : 'no'],
          ['events', webhook.event_types.join(', ')],
          ['unknown', webhook.unknown_event_types.join(', ')],
          ['retries', `${webhook.max_retries}, each at most ${webhook.timeout_seconds} s`],
        ]),
        '',
        formatTable({ head: deliveryHead, rows: deliveries.map(deliveryRow) }, terminalWidth()),
      ],
    }
  },
}
