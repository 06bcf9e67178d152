// Shares as a bar. The numbers stand beside it, so the bar itself is hidden from screen readers.
import type { State } from './icon.tsx'

export function Meter({ shares, className = '' }: { shares: readonly (readonly [State, number])[]; className?: string }) {
  const shown = shares.filter(([, count]) => count > 0)
  return (
    <span className={`meter ${className}`} aria-hidden="true">
      {shown.length === 0 ? <i className="st-wait" style={{ flex: 1 }} /> : null}
      {shown.map(([state, count]) => (
        <i key={state} className={`st-${state}`} style={{ flex: count }} />
      ))}
    </span>
  )
}

const grouped = new Intl.NumberFormat('en')
export const formatCount = (count: number): string => grouped.format(count)
