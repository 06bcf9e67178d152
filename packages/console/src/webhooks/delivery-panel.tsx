// One delivery: its message, and the button that sends it again.
import type { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import { useReadonlyReason } from '../api/session.tsx'
import { useDeed } from '../api/use-call.ts'
import { Command } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Icon } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'

export function DeliveryPanel({ delivery, close }: { delivery: WebhookDelivery; close: () => void }) {
  const toast = useToast()
  const replay = useDeed('replayDelivery', () => toast('the message is sent again as a new delivery'))
  const blocked = useReadonlyReason()
  return (
    <div className="pad delivery">
      <div className="row">
        <b className="b grow">{plainText(delivery.event_type, 80)}</b>
        <button
          type="button"
          className="btn sm"
          disabled={blocked !== null || replay.isPending}
          title={blocked ?? undefined}
          onClick={() => replay.mutate({ params: { id: delivery.id } })}
        >
          <Icon name="back" size="m" />
          Replay
        </button>
        <button type="button" className="btn bare sm ic" aria-label="Close" onClick={close}>
          <Icon name="x" />
        </button>
      </div>
      <pre className="code-block" tabIndex={0} aria-label="Message">
        {prettyJson(delivery.payload)}
      </pre>
      {replay.error === null ? null : <ErrorCard error={replay.error} />}
      <Command text={`brokkr webhooks replay --delivery ${delivery.id}`} />
    </div>
  )
}

function prettyJson(text: string): string {
  try {
    return plainText(JSON.stringify(JSON.parse(text), null, 2), 65_536)
  } catch {
    return plainText(text, 65_536)
  }
}
