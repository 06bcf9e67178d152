// Cron texts: five fields, six with a leading 0, or a name such as @daily. Normalized to five fields; CronJob evaluates them.

const names: Readonly<Record<string, string>> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
}

export type CronText = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly hasSeconds: boolean }

export function parseCron(text: string): CronText {
  const schedule = names[text.trim().toLowerCase()]
  if (schedule !== undefined) return { ok: true, text: schedule }
  const fields = text.length > 256 ? [] : text.trim().split(/\s+/)
  const [five, seconds] = fields.length === 6 ? [fields.slice(1), fields[0]] : [fields, '0']
  if (five.length !== 5 || !five.every((field, i) => isField(field, ranges[i]!))) return { ok: false, hasSeconds: false }
  return seconds === '0' ? { ok: true, text: five.join(' ') } : { ok: false, hasSeconds: true }
}

interface Range {
  readonly min: number
  readonly max: number
  readonly words?: readonly string[]
}
const ranges: readonly Range[] = [
  { min: 0, max: 59 },
  { min: 0, max: 23 },
  { min: 1, max: 31 },
  { min: 1, max: 12, words: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'] },
  { min: 0, max: 6, words: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] },
]

const isField = (field: string, range: Range): boolean => field.split(',').every((part) => isPart(part, range))

/** `*`, `?`, a value or a range, each with an optional step. */
function isPart(part: string, range: Range): boolean {
  const [whole = '', step, ...more] = part.split('/')
  if (more.length > 0 || (step !== undefined && !/^[1-9][0-9]{0,3}$/.test(step))) return false
  if (whole === '*' || whole === '?') return true
  const [from, to, ...others] = whole.split('-').map((value) => parseValue(value, range))
  if (from === undefined || others.length > 0) return false
  return !whole.includes('-') || (to !== undefined && from <= to)
}

function parseValue(text: string, range: Range): number | undefined {
  const word = range.words?.indexOf(text.toLowerCase()) ?? -1
  if (word >= 0) return word + range.min
  const value = /^[0-9]{1,2}$/.test(text) ? Number(text) : -1
  return value >= range.min && value <= range.max ? value : undefined
}
