// Keeps rows in place while a list is in use: values change in place, rows that left stay until then, and new rows are counted.
import { useEffect, useRef, useState } from 'react'

export interface CalmRow<Row> {
  readonly row: Row
  readonly isGone: boolean
}
export interface CalmList<Row> {
  readonly rows: readonly CalmRow<Row>[]
  readonly newer: number
  readonly take: () => void
  /** For the element that holds the list. */
  readonly hold: Readonly<Record<'onPointerEnter' | 'onPointerLeave' | 'onFocus' | 'onBlur', () => void>>
}

/** `key`: filters and the number of read pages; when they change, the list is replaced at once. */
export function useCalmList<Row>(rows: readonly Row[], idOf: (row: Row) => string, key: string): CalmList<Row> {
  const [isHeld, setHeld] = useState(false)
  const shown = useRef<{ key: string; rows: readonly Row[] }>({ key, rows })
  const [, repaint] = useState(0)
  if (!isHeld || shown.current.key !== key) shown.current = { key, rows }
  const fresh = new Map(rows.map((row) => [idOf(row), row]))
  const shownIds = new Set(shown.current.rows.map(idOf))
  const newer = rows.filter((row) => !shownIds.has(idOf(row))).length
  const take = () => {
    shown.current = { key, rows }
    repaint((count) => count + 1)
  }
  const latest = useRef(take)
  latest.current = take
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === '.' && !(event.target instanceof HTMLInputElement) && !(event.target instanceof HTMLTextAreaElement))
        latest.current()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  return {
    rows: shown.current.rows.map((row) => ({ row: fresh.get(idOf(row)) ?? row, isGone: !fresh.has(idOf(row)) })),
    newer,
    take,
    hold: {
      onPointerEnter: () => setHeld(true),
      onPointerLeave: () => setHeld(false),
      onFocus: () => setHeld(true),
      onBlur: () => setHeld(false),
    },
  }
}
