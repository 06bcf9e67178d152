// An empty list: one sentence what it is for, and how the first one is made. A filter that hides everything has another text.
import type { ReactNode } from 'react'
import { Command } from './command.tsx'

export function Empty({ title, children, command, action }: { title: string; children?: ReactNode; command?: string; action?: ReactNode }) {
  return (
    <div className="empty">
      <b className="b">{title}</b>
      {children === undefined ? null : <p>{children}</p>}
      {action}
      {command === undefined ? null : <Command text={command} />}
    </div>
  )
}

export function NothingMatches({ filters, clear }: { filters: number; clear: () => void }) {
  return (
    <div className="empty">
      <b className="b">
        Nothing matches; {filters} {filters === 1 ? 'filter' : 'filters'} on
      </b>
      <button type="button" className="btn sm" onClick={clear}>
        Turn all filters off
      </button>
    </div>
  )
}
