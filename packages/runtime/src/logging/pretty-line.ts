// Formats a log line for a terminal: `12:34:56.789 INFO  broker: started port=3000`. Control characters are escaped.
import type { CleanFields } from './redact.ts'

type Line = { time: string; level: string; program: string; msg: string; [field: string]: CleanFields }

export function formatPrettyLine(line: string): string {
  const { time, level, program, msg, ...fields } = JSON.parse(line) as Line
  const head = `${time.slice(11, 23)} ${level.toUpperCase().padEnd(5)} ${plain(program)}: ${plain(msg)}`
  return `${[head, ...Object.entries(fields).map(([key, value]) => `${plain(key)}=${formatValue(value)}`)].join(' ')}\n`
}

function formatValue(value: CleanFields): string {
  const text = isError(value) ? errorLine(value) : typeof value === 'string' ? value : JSON.stringify(value)
  return typeof value !== 'string' || /^[\w./:@*-]+$/.test(text) ? plain(text) : plain(JSON.stringify(text))
}

type ErrorRecord = { type: string; message: string; cause?: CleanFields }

function isError(value: CleanFields | undefined): value is ErrorRecord {
  return typeof value === 'object' && value !== null && 'type' in value && typeof (value as ErrorRecord).message === 'string'
}

/** Messages of the whole chain, outermost first; stacks stay in the JSON form. */
function errorLine(error: ErrorRecord): string {
  const rest = isError(error.cause) ? ` ← ${errorLine(error.cause)}` : ''
  return `${error.type}: ${error.message}${rest}`
}

/** C0, DEL, C1 and separators that move the cursor or reorder text become visible escapes. */
function plain(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
