// One promotion: its gates as sentences, who decided, and the buttons. Approve and reject go through the broker, which signs them.
import { useState } from 'react'
import { useReadonlyReason } from '../api/session.tsx'
import { useDeed } from '../api/use-call.ts'
import { Age, formatClock } from '../parts/age.tsx'
import { Command, shellWord } from '../parts/command.tsx'
import { ErrorCard } from '../parts/error-card.tsx'
import { Glyph, Icon } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { useToast } from '../parts/toast.tsx'
import type { PromotionCard } from './promotion-model.ts'

export function PromotionPanel({ card, close }: { card: PromotionCard; close: () => void }) {
  const params = { namespace: card.namespace, name: card.name }
  const [reason, setReason] = useState('')
  const toast = useToast()
  const decide = useDeed('decidePromotion', ({ approvals, required }) => toast(`${card.pipeline}: ${approvals} of ${required} approvals`))
  const retry = useDeed('retryPromotion', () => toast(`${card.name} is tried again`))
  const abort = useDeed('abortPromotion', () => toast(`${card.name} is aborted`))
  const blocked = useReadonlyReason()
  const isWaiting = card.phase === 'AwaitingApproval'
  const cannotDecide = blocked ?? (isWaiting ? null : `the promotion is ${card.phase}, it does not wait for approval`)
  const canRetry = ['Failed', 'Errored', 'Rejected', 'Expired', 'Abandoned', 'Aborted', 'Blocked'].includes(card.phase)
  const error = decide.error ?? retry.error ?? abort.error
  const send = (decision: 'approve' | 'reject') =>
    decide.mutate({ params, body: { decision, key: card.key, ...(reason === '' ? {} : { message: reason }) } })
  return (
    <aside className="card side" aria-label="Promotion">
      <div className="phead">
        <h2 className="grow cut">
          {plainText(card.pipeline, 60)} <span className="mono">{plainText(card.revision, 24)}</span> <Icon name="arrow" size="s" />{' '}
          {card.environment}
        </h2>
        <button type="button" className="btn bare sm ic" aria-label="Close" onClick={close}>
          <Icon name="x" />
        </button>
      </div>
      <div className="pad">
        <span className="ink-2">
          {plainText(card.cause, 120)}, <Age at={card.createdAt} suffix=" ago" />
        </span>
        {card.message === '' ? null : <p>{plainText(card.message, 1000)}</p>}
      </div>
      <div className="hr" />
      <div className="phead">
        <h2>Gates</h2>
        <span className="ink-3">
          {card.gates.filter(({ state }) => state === 'current').length} of {card.gates.length} open
        </span>
      </div>
      <ul className="gate-list">
        {card.gates.map((gate) => (
          <li key={gate.title}>
            <Glyph state={gate.state} size="l" />
            <div className="col">
              <b className="b">{plainText(gate.title, 80)}</b>
              <span className="ink-2 f12">{plainText(gate.note, 300)}</span>
            </div>
          </li>
        ))}
      </ul>
      {card.approvals.length === 0 ? null : (
        <>
          <div className="phead">
            <h2>People</h2>
          </div>
          <ul className="gate-list">
            {card.approvals.map((entry) => (
              <li key={entry.subject}>
                <Glyph state={entry.decision === 'approve' ? 'current' : 'failing'} />
                <div className="col grow">
                  <b className="b">{plainText(entry.subject, 120)}</b>
                  <span className="ink-2 f12">{plainText(entry.message, 300)}</span>
                </div>
                <span className="age">{formatClock(entry.at)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      <div className="pad decide">
        <label className="field">
          <span>Reason, kept with the decision</span>
          <input className="input" value={reason} onChange={(event) => setReason(event.target.value)} maxLength={4096} />
        </label>
        <div className="row">
          <button
            type="button"
            className="btn go grow"
            disabled={cannotDecide !== null || decide.isPending}
            title={cannotDecide ?? undefined}
            onClick={() => send('approve')}
          >
            <Icon name="check" size="m" />
            Approve
          </button>
          <button
            type="button"
            className="btn"
            disabled={cannotDecide !== null || decide.isPending}
            title={cannotDecide ?? undefined}
            onClick={() => send('reject')}
          >
            Reject
          </button>
          {canRetry ? (
            <button
              type="button"
              className="btn"
              disabled={blocked !== null}
              title={blocked ?? undefined}
              onClick={() => retry.mutate({ params })}
            >
              Retry
            </button>
          ) : null}
          {card.isOpen ? (
            <button
              type="button"
              className="btn bad"
              disabled={blocked !== null}
              title={blocked ?? undefined}
              onClick={() => abort.mutate({ params })}
            >
              Abort
            </button>
          ) : null}
        </div>
        <span className="ink-3 f12">{cannotDecide ?? 'The decision is for this revision only; a new revision asks again.'}</span>
        {error === null ? null : <ErrorCard error={error} />}
        <Command text={`brokkr approve ${shellWord(`${card.pipeline}/${card.environment}`)}`} />
      </div>
    </aside>
  )
}
