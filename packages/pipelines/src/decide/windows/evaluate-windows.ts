// Whether freeze windows allow a promotion now, and when that changes. Pure: half-open windows, local start times, elapsed durations.
import { instantOfLocal, parseZone, type Zone } from '@brokkr/contract/dataflow/language/zone.ts'
import { durationMs } from '@brokkr/contract/pipelines/fields.ts'
import type { Window } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { parseLocalTime, parseRecurrence, type Recurrence } from '@brokkr/contract/pipelines/recurrence.ts'
import { recurrenceDays } from './recurrence-days.ts'

export interface WindowState {
  readonly isOpen: boolean
  /** Window that closes the gate: a Deny that covers now, or null where no Allow covers now. */
  readonly closedBy: string | null
  /** Next time at which any window begins or ends; null: never again. */
  readonly nextBoundaryMs: number | null
  /** While closed: when it opens; null: no opening was found. */
  readonly nextOpenMs: number | null
}

/** Bounds the search for the next opening: a year of daily windows. */
const OBSTACLES_MAX = 400

/** Open = (no Allow, or one covers now) and no Deny covers now. The windows have passed checkWindow. */
export function evaluateWindows(windows: readonly Window[], nowMs: number): WindowState {
  const calendars = windows.map(toCalendar)
  const { isOpen, closedBy } = stateAt(calendars, nowMs)
  const nextBoundaryMs = nextBoundary(calendars, nowMs)
  return { isOpen, closedBy, nextBoundaryMs, nextOpenMs: isOpen ? null : findOpening(calendars, nowMs) }
}

interface Calendar {
  readonly name: string
  readonly kind: Window['kind']
  readonly durationMs: number
  readonly zone: Zone
  readonly startLocal: number
  readonly rule: Recurrence | null
  readonly exdates: ReadonlySet<number>
}

function toCalendar(window: Window): Calendar {
  const recurrence = window.rrule === undefined ? null : parseRecurrence(window.rrule)
  const zone = getZone(window.timezone ?? 'UTC')
  const startLocal = parseLocalTime(window.start)
  if (zone === undefined || startLocal === undefined || recurrence?.ok === false)
    throw new RangeError(`window ${window.name} is invalid: it must be checked before it is evaluated`)
  return {
    name: window.name,
    kind: window.kind,
    durationMs: durationMs(window.duration, '0s'),
    zone,
    startLocal,
    rule: recurrence === null ? null : recurrence.rule,
    exdates: new Set((window.exdates ?? []).flatMap((exdate) => parseLocalTime(exdate) ?? [])),
  }
}

const ZONES_MAX = 100
const zones = new Map<string, Zone | undefined>()

/** Opening a zone takes a millisecond, which is most of an evaluation; each is opened once. */
function getZone(name: string): Zone | undefined {
  if (zones.has(name)) return zones.get(name)
  if (zones.size >= ZONES_MAX) zones.clear()
  const zone = parseZone(name)
  zones.set(name, zone)
  return zone
}

function stateAt(calendars: readonly Calendar[], ms: number): { isOpen: boolean; closedBy: string | null } {
  const deny = calendars.find((calendar) => calendar.kind === 'Deny' && covers(calendar, ms))
  if (deny !== undefined) return { isOpen: false, closedBy: deny.name }
  const allows = calendars.filter(({ kind }) => kind === 'Allow')
  return { isOpen: allows.length === 0 || allows.some((calendar) => covers(calendar, ms)), closedBy: null }
}

/** Goes from obstacle to obstacle: to the end of a Deny that covers the time, or to the next begin of an Allow. */
function findOpening(calendars: readonly Calendar[], fromMs: number): number | null {
  let ms: number | null = fromMs
  for (let searched = 0; ms !== null && searched < OBSTACLES_MAX; searched++) {
    const at: number = ms
    const deny = calendars.find((calendar) => calendar.kind === 'Deny' && covers(calendar, at))
    if (deny === undefined && stateAt(calendars, at).isOpen) return at
    ms = deny === undefined ? nextAllow(calendars, at) : nextEnd(deny, at)
  }
  return null
}

function nextAllow(calendars: readonly Calendar[], ms: number): number | null {
  return earliest(calendars.filter(({ kind }) => kind === 'Allow').map((calendar) => nextStart(calendar, ms)))
}

function nextStart(calendar: Calendar, ms: number): number | null {
  for (const startMs of startsFrom(calendar, ms)) if (startMs > ms) return startMs
  return null
}

/** The first end after `ms`. Ends are in the order of begins, because all windows of a calendar are equally long. */
function nextEnd(calendar: Calendar, ms: number): number | null {
  for (const startMs of startsFrom(calendar, ms - calendar.durationMs))
    if (startMs + calendar.durationMs > ms) return startMs + calendar.durationMs
  return null
}

function covers(calendar: Calendar, ms: number): boolean {
  for (const startMs of startsFrom(calendar, ms - calendar.durationMs)) {
    if (startMs > ms) return false
    if (ms < startMs + calendar.durationMs) return true
  }
  return false
}

function nextBoundary(calendars: readonly Calendar[], ms: number): number | null {
  return earliest(calendars.flatMap((calendar) => [nextStart(calendar, ms), nextEnd(calendar, ms)]))
}

function earliest(times: readonly (number | null)[]): number | null {
  const known = times.filter((time) => time !== null)
  return known.length === 0 ? null : Math.min(...known)
}

const DAY_SECONDS = 86_400

/** Begins of the windows, ascending, from the first that may be at or after `fromMs`; earlier ones of the same two days may come too. */
function* startsFrom(calendar: Calendar, fromMs: number): Generator<number> {
  const { rule, startLocal, zone } = calendar
  if (rule === null) {
    yield instantOfLocal(zone, startLocal) * 1000
    return
  }
  const startDay = Math.floor(startLocal / DAY_SECONDS)
  const secondOfDay = startLocal - startDay * DAY_SECONDS
  const fromDay = Math.floor(fromMs / 1000 / DAY_SECONDS) - 1
  for (const day of recurrenceDays(rule, startDay, fromDay)) {
    const local = day * DAY_SECONDS + secondOfDay
    const seconds = instantOfLocal(zone, local)
    if (rule.until !== null && (rule.until.kind === 'utc' ? seconds : local) > rule.until.seconds) return
    if (!calendar.exdates.has(local)) yield seconds * 1000
  }
}
