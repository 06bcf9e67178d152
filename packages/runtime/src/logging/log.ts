// Structured log: a constant message with typed fields. Every field passes the redaction of redact.ts at every level, so that logs
// can be shared.
import { pino } from 'pino'
import { formatPrettyLine } from './pretty-line.ts'
import { type CleanFields, type Fields, redactFields } from './redact.ts'
import { redactText } from './redact-text.ts'

export type { Fields, FieldValue } from './redact.ts'

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

type Write = (message: string, fields?: Fields) => void
export interface Log {
  readonly trace: Write
  readonly debug: Write
  readonly info: Write
  readonly warn: Write
  readonly error: Write
  /** The same log with additional fields in each line. */
  child(fields: Fields): Log
  /** Shared by a log and its children, so that a changed setting applies to all of them. */
  level: LogLevel
}

export type LogDestination = { write(line: string): unknown }
export type LogOptions = {
  /** Name of the program, written to each line as `program`. */
  name: string
  level?: LogLevel
  format?: 'json' | 'pretty'
  /** Standard output when left out. */
  destination?: LogDestination
}

export function createLog(options: LogOptions): Log {
  const shared: Shared = { level: options.level ?? 'info', sink: openSink(options) }
  return logWith(shared, { program: redactText(options.name, 100) })
}

/** For callers without a log. */
export const silentLog: Log = {
  trace: noOp,
  debug: noOp,
  info: noOp,
  warn: noOp,
  error: noOp,
  child: () => silentLog,
  get level(): LogLevel {
    return 'silent'
  },
  set level(_ignored: LogLevel) {},
}

type Shared = { level: LogLevel; sink: pino.Logger }
type WritingLevel = Exclude<LogLevel, 'silent'>

function openSink(options: LogOptions): pino.Logger {
  // Synchronous: the line that explains an exit must not be lost in it.
  const destination = options.destination ?? pino.destination({ fd: 1, sync: true })
  const written = options.format === 'pretty' ? { write: (line: string) => destination.write(formatPrettyLine(line)) } : destination
  const settings = {
    level: 'trace',
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  return pino(settings, written)
}

function logWith(shared: Shared, bound: Record<string, CleanFields>): Log {
  const at =
    (level: WritingLevel): Write =>
    (message, fields) =>
      writeLine(shared, { level, message, bound, fields })
  return {
    trace: at('trace'),
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => logWith(shared, { ...bound, ...safeFields(fields) }),
    get level() {
      return shared.level
    },
    set level(level) {
      shared.level = level
    },
  }
}

function writeLine(
  shared: Shared,
  line: { level: WritingLevel; message: string; bound: Record<string, CleanFields>; fields: Fields | undefined },
): void {
  if (logLevels.indexOf(line.level) < logLevels.indexOf(shared.level)) return
  shared.sink[line.level]({ ...line.bound, ...safeFields(line.fields) }, redactText(line.message))
}

/** Reserved names; a field with such a name would appear twice. */
const reserved = new Set(['level', 'time', 'msg', 'program'])

/** Logging never throws: if a field cannot be read (a failing getter), the fields are dropped. */
function safeFields(fields: Fields | undefined): Record<string, CleanFields> {
  try {
    const cleaned = Object.entries(redactFields(fields ?? {}))
    return Object.fromEntries(cleaned.map(([key, value]) => [reserved.has(key) ? `${key}_` : key, value]))
  } catch {
    return { fields: 'unreadable' }
  }
}

function noOp(): void {}
