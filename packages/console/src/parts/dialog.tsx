// A modal dialog of the browser: it keeps the focus inside and closes with Escape. Below 900 px it is a sheet at the bottom edge.
import { type ReactNode, useEffect, useId, useRef } from 'react'
import { Icon } from './icon.tsx'

export interface DialogProps {
  readonly title: ReactNode
  readonly children: ReactNode
  readonly onClose: () => void
  readonly isWide?: boolean
  readonly className?: string
}

export function Dialog({ title, children, onClose, isWide = false, className = '' }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const dialog = ref.current
    if (dialog !== null && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={ref}
      className={`dialog ${isWide ? 'wide' : ''} ${className}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose()
      }}
    >
      <div className="dialog-in">
        <header>
          <h2 id={titleId}>{title}</h2>
          <button type="button" className="btn bare sm ic push" aria-label="Close" onClick={onClose}>
            <Icon name="x" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  )
}
