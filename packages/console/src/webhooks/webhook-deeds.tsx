// Actions on a webhook: test, replay a period, pause, new secret, delete.
import type { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useDeed } from '../api/use-call.ts'
import { shellWord } from '../parts/command.tsx'
import { Confirm } from '../parts/confirm.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { StateText } from '../parts/icon.tsx'
import { SecretOnce } from '../parts/secret-once.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'

const hourMs = 3_600_000

export function WebhookDeeds({ hook }: { hook: Webhook }) {
  const params = { id: hook.id }
  const navigate = useNavigate()
  const toast = useToast()
  const blocked = useReadonlyReason()
  const [isDeleting, setDeleting] = useState(false)
  const test = useDeed('testWebhook')
  const replay = useDeed('replayDeliveries', ({ count }) => toast(`${count} deliveries are sent again`))
  const update = useDeed('updateWebhook')
  const rotate = useDeed('rotateWebhookSecret')
  const remove = useDeed('deleteWebhook', () => void navigate({ to: '/webhooks' }))
  const error = test.error ?? replay.error ?? update.error ?? rotate.error
  const button = (label: string, run: () => void, command: string) => (
    <button type="button" className="btn sm" disabled={blocked !== null} title={blocked ?? command} onClick={run}>
      {label}
    </button>
  )
  const name = shellWord(hook.name)
  return (
    <div className="pad">
      <div className="chips">
        {button('Send a test', () => test.mutate({ params }), `brokkr webhooks test ${name}`)}
        {button(
          'Replay given up, 24 h',
          () => replay.mutate({ params, body: { since: new Date(Date.now() - 24 * hourMs).toISOString() } }),
          `brokkr webhooks replay ${name} --since 24h --dead`,
        )}
        {button(
          hook.enabled ? 'Pause' : 'Resume',
          () => update.mutate({ params, body: { enabled: !hook.enabled } }),
          `brokkr webhooks ${hook.enabled ? 'pause' : 'resume'} ${name}`,
        )}
        {button('New secret', () => rotate.mutate({ params }), `brokkr webhooks rotate-secret ${name}`)}
        <button
          type="button"
          className="btn sm bad"
          disabled={blocked !== null}
          title={blocked ?? undefined}
          onClick={() => setDeleting(true)}
        >
          Delete
        </button>
        {test.data === undefined ? null : (
          <StateText state={test.data.success ? 'current' : 'failing'}>
            {test.data.status_code} {plainText(test.data.message, 120)}
          </StateText>
        )}
      </div>
      {rotate.data === undefined ? null : <SecretOnce value={rotate.data.signing_secret} what="signing secret" />}
      {error === null ? null : <ErrorCard error={error} />}
      {isDeleting ? (
        <Confirm
          title={`Delete ${hook.name}`}
          button="Delete the webhook"
          command={`brokkr webhooks delete ${name}`}
          typedName={hook.name}
          isRemoval
          isBusy={remove.isPending}
          error={remove.error}
          onClose={() => setDeleting(false)}
          onConfirm={() => remove.mutate({ params })}
        >
          <p className="ink-2">The subscription and its deliveries are deleted. Pending deliveries are not sent.</p>
        </Confirm>
      ) : null}
    </div>
  )
}
