// Asks before an action: the plan, the equal command, for a removal the name typed, and what happened.
import { type ReactNode, useState } from 'react'
import { Command } from './command.tsx'
import { Dialog } from './dialog.tsx'
import { ErrorCard } from './error-card.tsx'

export interface ConfirmProps {
  readonly title: string
  readonly children: ReactNode
  readonly button: string
  readonly command?: string | undefined
  /** Removals ask for this name. */
  readonly typedName?: string | undefined
  readonly isRemoval?: boolean
  readonly isBusy: boolean
  readonly error: Error | null
  readonly blockedBecause?: string | null | undefined
  readonly onConfirm: () => void
  readonly onClose: () => void
}

export function Confirm(props: ConfirmProps) {
  const [typed, setTyped] = useState('')
  const reason =
    props.blockedBecause ?? (props.typedName !== undefined && typed !== props.typedName ? `type ${props.typedName} to confirm` : null)
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <div className="pad">
        {props.children}
        {props.typedName === undefined ? null : (
          <label className="field">
            <span>
              Type <b className="mono">{props.typedName}</b> to confirm
            </span>
            <input className="input" value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
          </label>
        )}
        {props.command === undefined ? null : <Command text={props.command} />}
        {props.error === null ? null : <ErrorCard error={props.error} />}
      </div>
      <footer className="dialog-foot">
        <span className="ink-3 f12 grow">{reason ?? ''}</span>
        <button type="button" className="btn" onClick={props.onClose}>
          Cancel
        </button>
        <button
          type="button"
          className={`btn ${props.isRemoval === true ? 'bad' : 'go'}`}
          disabled={props.isBusy || reason !== null}
          title={reason ?? undefined}
          onClick={props.onConfirm}
        >
          {props.isBusy ? 'Working…' : props.button}
        </button>
      </footer>
    </Dialog>
  )
}
