// The days on which a recurrence rule falls, in order. Days are counted from 1970-01-01; all arithmetic is on the calendar, without zones.
import type { Recurrence } from '@brokkr/contract/pipelines/recurrence.ts'

/** Rules without a day within this many days of the start of the search have none: leap days come every eight years at most. */
const HORIZON_DAYS = 366 * 30

/** Ascending days from `fromDay` on. `startDay` anchors the rule; COUNT counts from there. */
export function* recurrenceDays(rule: Recurrence, startDay: number, fromDay: number): Generator<number> {
  const period = periodsOf(rule, startDay)
  const lastDay = Math.max(fromDay, startDay) + HORIZON_DAYS
  let counted = 0
  for (let index = rule.count === null ? Math.max(0, period.indexAt(fromDay) - 1) : 0; period.firstDay(index) <= lastDay; index++) {
    for (const day of period.days(index)) {
      if (day < startDay) continue
      if (rule.count !== null && ++counted > rule.count) return
      if (day >= fromDay) yield day
    }
  }
}

interface Periods {
  /** A period that is not after the one that holds the day. */
  indexAt(day: number): number
  firstDay(index: number): number
  days(index: number): number[]
}

function periodsOf(rule: Recurrence, startDay: number): Periods {
  if (rule.frequency === 'DAILY') return dailyPeriods(rule, startDay)
  if (rule.frequency === 'WEEKLY') return weeklyPeriods(rule, startDay)
  return rule.frequency === 'MONTHLY' ? monthlyPeriods(rule, startDay) : yearlyPeriods(rule, startDay)
}

function dailyPeriods(rule: Recurrence, startDay: number): Periods {
  const firstDay = (index: number): number => startDay + index * rule.interval
  return {
    indexAt: (day) => Math.floor((day - startDay) / rule.interval),
    firstDay,
    days: (index) => [firstDay(index)].filter((day) => matchesMonth(rule, day) && matchesMonthDay(rule, day) && matchesWeekday(rule, day)),
  }
}

function weeklyPeriods(rule: Recurrence, startDay: number): Periods {
  const firstWeek = startDay - ((weekdayOf(startDay) - rule.weekStart + 7) % 7)
  const weekdays = rule.byDay.length > 0 ? new Set(rule.byDay.map(({ weekday }) => weekday)) : new Set([weekdayOf(startDay)])
  const firstDay = (index: number): number => firstWeek + index * 7 * rule.interval
  return {
    indexAt: (day) => Math.floor((day - firstWeek) / (7 * rule.interval)),
    firstDay,
    days: (index) => range(firstDay(index), 7).filter((day) => weekdays.has(weekdayOf(day)) && matchesMonth(rule, day)),
  }
}

function monthlyPeriods(rule: Recurrence, startDay: number): Periods {
  const start = dateOf(startDay)
  const firstMonth = start.year * 12 + start.month - 1
  const monthAt = (index: number): number => firstMonth + index * rule.interval
  return {
    indexAt: (day) => Math.floor((monthIndexOf(day) - firstMonth) / rule.interval),
    firstDay: (index) => firstDayOfMonth(monthAt(index)),
    days: (index) => daysOfMonth(rule, monthAt(index), start.day).filter((day) => matchesMonth(rule, day)),
  }
}

function yearlyPeriods(rule: Recurrence, startDay: number): Periods {
  const start = dateOf(startDay)
  const yearAt = (index: number): number => start.year + index * rule.interval
  return {
    indexAt: (day) => Math.floor((dateOf(day).year - start.year) / rule.interval),
    firstDay: (index) => firstDayOfMonth(yearAt(index) * 12),
    days: (index) => daysOfYear(rule, yearAt(index), start),
  }
}

function daysOfYear(rule: Recurrence, year: number, start: { month: number; day: number }): number[] {
  const isByDay = rule.byDay.length > 0
  // An ordinal counts within the year, unless BYMONTH names months: then within each of them.
  if (isByDay && rule.byMonth.length === 0) {
    const first = firstDayOfMonth(year * 12)
    const days = pickWeekdays(rule, range(first, firstDayOfMonth((year + 1) * 12) - first))
    return days.filter((day) => matchesMonthDay(rule, day))
  }
  const all = rule.byMonthDay.length > 0 && rule.byMonth.length === 0
  const months = all ? range(1, 12) : rule.byMonth.length > 0 ? rule.byMonth.toSorted((a, b) => a - b) : [start.month]
  return months.flatMap((month) => daysOfMonth(rule, year * 12 + month - 1, start.day))
}

function daysOfMonth(rule: Recurrence, monthIndex: number, startDayOfMonth: number): number[] {
  const first = firstDayOfMonth(monthIndex)
  const days = range(first, firstDayOfMonth(monthIndex + 1) - first)
  if (rule.byDay.length > 0) return pickWeekdays(rule, days).filter((day) => matchesMonthDay(rule, day))
  if (rule.byMonthDay.length > 0) return days.filter((day) => matchesMonthDay(rule, day))
  return days.filter((day) => dateOf(day).day === startDayOfMonth)
}

/** `2MO` is the second Monday of these days, `-1FR` the last Friday. */
function pickWeekdays(rule: Recurrence, days: readonly number[]): number[] {
  return days.filter((day) =>
    rule.byDay.some(({ ordinal, weekday }) => {
      if (weekdayOf(day) !== weekday) return false
      if (ordinal === null) return true
      const same = days.filter((other) => weekdayOf(other) === weekday)
      return same.at(ordinal > 0 ? ordinal - 1 : ordinal) === day
    }),
  )
}

const matchesMonth = (rule: Recurrence, day: number): boolean => rule.byMonth.length === 0 || rule.byMonth.includes(dateOf(day).month)

const matchesWeekday = (rule: Recurrence, day: number): boolean =>
  rule.byDay.length === 0 || rule.byDay.some(({ weekday }) => weekday === weekdayOf(day))

/** -1 is the last day of the month. */
function matchesMonthDay(rule: Recurrence, day: number): boolean {
  if (rule.byMonthDay.length === 0) return true
  const dayOfMonth = dateOf(day).day
  const length = firstDayOfMonth(monthIndexOf(day) + 1) - firstDayOfMonth(monthIndexOf(day))
  return rule.byMonthDay.some((wanted) => (wanted > 0 ? wanted : length + 1 + wanted) === dayOfMonth)
}

const dayMs = 86_400_000

function dateOf(day: number): { year: number; month: number; day: number } {
  const date = new Date(day * dayMs)
  return { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() }
}

/** Monday is 0; 1970-01-01 was a Thursday. */
const weekdayOf = (day: number): number => (((day + 3) % 7) + 7) % 7

const monthIndexOf = (day: number): number => dateOf(day).year * 12 + dateOf(day).month - 1

const firstDayOfMonth = (monthIndex: number): number => Date.UTC(Math.floor(monthIndex / 12), monthIndex % 12, 1) / dayMs

const range = (first: number, length: number): number[] => Array.from({ length }, (_, index) => first + index)
