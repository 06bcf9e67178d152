// One way to write down what happened: a constant message, typed fields beside it, one line per outcome. Every field passes
// the redaction of redact.ts at every level, so that a log can be shown to anybody.
import { pino } from 'pino'
import { prettyLine } from './log-pretty.ts'
import { type Clean, cleanFields, type Fields } from './redact.ts'
import { cleanText } from './redact-text.ts'

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
  /** The same log with fields that stand in each of its lines. */
  child(fields: Fields): Log
  /** Shared by a log and all its children: a changed setting takes effect everywhere at once. */
  level: LogLevel
}

export type LogDestination = { write(line: string): unknown }
export type LogOptions = {
  /** The program that speaks; stands in each line as `program`. */
  name: string
  level?: LogLevel
  format?: 'json' | 'pretty'
  /** Standard output when left out. */
  destination?: LogDestination
}

export function createLog(options: LogOptions): Log {
  const shared: Shared = { level: options.level ?? 'info', sink: openSink(options) }
  return logWith(shared, { program: cleanText(options.name, 100) })
}

/** For code that must have a log and a caller who wants none. */
export const silentLog: Log = {
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
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
  const written = options.format === 'pretty' ? { write: (line: string) => destination.write(prettyLine(line)) } : destination
  const settings = {
    level: 'trace',
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  }
  return pino(settings, written)
}

function logWith(shared: Shared, bound: Record<string, Clean>): Log {
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
  line: { level: WritingLevel; message: string; bound: Record<string, Clean>; fields: Fields | undefined },
): void {
  if (logLevels.indexOf(line.level) < logLevels.indexOf(shared.level)) return
  shared.sink[line.level]({ ...line.bound, ...safeFields(line.fields) }, cleanText(line.message))
}

/** Names the line itself uses; a field of that name would stand in it twice. */
const reserved = new Set(['level', 'time', 'msg', 'program'])

/** Logging never throws: what cannot be read (a getter that fails) costs the fields, not the request. */
function safeFields(fields: Fields | undefined): Record<string, Clean> {
  try {
    const cleaned = Object.entries(cleanFields(fields ?? {}))
    return Object.fromEntries(cleaned.map(([key, value]) => [reserved.has(key) ? `${key}_` : key, value]))
  } catch {
    return { fields: 'unreadable' }
  }
}

function nothing(): void {}
