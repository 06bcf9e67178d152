// Ages: seconds below a minute, then minutes, then the clock time, then the date. One timer for the whole page; the exact time is in the
// title.
import { useSyncExternalStore } from 'react'

let nowMs = Date.now()
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | null = null

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    if (document.hidden) return
    nowMs = Date.now()
    for (const each of listeners) each()
  }, 1000)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0 && timer !== null) {
      clearInterval(timer)
      timer = null
    }
  }
}

export const useNow = (): number => useSyncExternalStore(subscribe, () => nowMs)

/** Pure. `4 s`, `12 min`, `2 h 4 min`, then `3 d`. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} d`
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })

export const formatClock = (at: string | number): string => clock.format(new Date(at))
export const formatExact = (at: string | number): string => exact.format(new Date(at))

export function Age({ at, prefix = '', suffix = '' }: { at: string | number | null | undefined; prefix?: string; suffix?: string }) {
  const now = useNow()
  if (at === null || at === undefined) return <span className="age">never</span>
  const ms = typeof at === 'number' ? at : Date.parse(at)
  return (
    <time className="age" dateTime={new Date(ms).toISOString()} title={formatExact(ms)}>
      {prefix}
      {formatSpan(now - ms)}
      {suffix}
    </time>
  )
}
