// Tabs whose selection is part of the URL.
import type { ReactNode } from 'react'

export interface TabOption<T extends string> {
  readonly id: T
  readonly label: string
  readonly count?: ReactNode
}

export function Tabs<T extends string>({
  options,
  value,
  onChange,
  label,
}: {
  options: readonly TabOption<T>[]
  value: T
  onChange: (next: T) => void
  label: string
}) {
  return (
    <div className="tabs" role="tablist" aria-label={label}>
      {options.map(({ id, label: text, count }) => (
        <button
          key={id}
          type="button"
          role="tab"
          aria-selected={id === value}
          className={id === value ? 'tab on' : 'tab'}
          onClick={() => onChange(id)}
        >
          {text}
          {count === undefined ? null : <span className="n">{count}</span>}
        </button>
      ))}
    </div>
  )
}
