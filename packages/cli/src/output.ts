// Terminal output: tables, and errors with location, cause and next step. Data goes to standard output, messages to standard error.
import { type ApiError, ConnectionError } from '@brokkr/client'
import { ConfigError, wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import pc from 'picocolors'
import { stripControls } from './table.ts'

/** Exit codes of all commands, for scripts. */
export const exitCodes = {
  failed: 1,
  /** Wrong flags, or a wrong configuration, as of every program. */
  usage: wrongConfigurationExitCode,
  notFound: 3,
  notAllowed: 4,
  /** Refused because of a conflict, hold, guard, window or missing approval. */
  refused: 5,
  unhealthy: 6,
  timedOut: 7,
  brokerUnreachable: 8,
  /** A comparison with `--exit-code` found differences. */
  changes: 10,
  interrupted: 130,
} as const

/** An expected failure of a command, with a next step. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly where: string | undefined
  readonly next: string | undefined
  readonly exitCode: number

  constructor(message: string, options: { where?: string; next?: string; exitCode?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.where = options.where
    this.next = options.next
    this.exitCode = options.exitCode ?? exitCodes.failed
  }
}

/** Text of others must not steer the terminal: control characters are printed as escapes, which JSON reads back. Line breaks stay, and the
 *  colors that this program writes itself to a terminal. */
export const escapeControls = (text: string): string =>
  text.replace(/\p{Cc}\[\d{1,2}m|[\p{Cc}\p{Cf}]/gu, (found) => {
    if (found === '\n' || found === '\t' || (found.length > 1 && found.startsWith('\u001b') && pc.isColorSupported)) return found
    return found.replace(/[\p{Cc}\p{Cf}]/gu, toEscape)
  })

const toEscape = (letter: string): string =>
  letter
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

export const print = (line = ''): void => void process.stdout.write(`${escapeControls(line)}\n`)
export const printError = (line = ''): void => void process.stderr.write(`${escapeControls(line)}\n`)

/** Prints an error and returns the exit code. */
export function printFailure(error: unknown): number {
  const lines = toErrorLines(error)
  printError(`${pc.red('error')}: ${stripControls(lines.what)}`)
  for (const [name, text] of [
    ['where', lines.where],
    ['why', lines.why],
    ['next', lines.next],
    ['code', lines.code],
  ] as const)
    if (text) printError(`  ${name.padEnd(6)}${stripControls(text)}`)
  return toExitCode(error)
}

/** An answer of the broker, or the same rejection by a command that works on its database. */
const isApiError = (error: unknown): error is Rejection => error instanceof Error && error.name === 'ApiError' && 'status' in error

type Rejection = Pick<ApiError, 'code' | 'message' | 'status' | 'hasBody'> & Partial<Pick<ApiError, 'next' | 'requestId'>> & Error

function toExitCode(error: unknown): number {
  if (error instanceof CliError) return error.exitCode
  if (error instanceof ConfigError) return exitCodes.usage
  if (error instanceof ConnectionError) return exitCodes.brokerUnreachable
  if (!isApiError(error)) return exitCodes.failed
  if (error.status === 404) return exitCodes.notFound
  if (error.status === 401 || error.status === 403) return exitCodes.notAllowed
  if (error.status === 409 || error.status === 412) return exitCodes.refused
  // A response without an error body comes from a proxy, not from the broker.
  return !error.hasBody && error.status >= 500 ? exitCodes.brokerUnreachable : exitCodes.failed
}

interface ErrorLines {
  readonly what: string
  readonly where?: string | undefined
  readonly why?: string | undefined
  readonly next?: string | undefined
  readonly code?: string | undefined
}

function toErrorLines(error: unknown): ErrorLines {
  if (error instanceof CliError)
    return {
      what: error.message,
      where: error.where,
      next: error.next,
      why: error.cause instanceof Error ? error.cause.message : undefined,
    }
  if (error instanceof ConnectionError)
    return {
      what: 'the broker cannot be reached',
      where: error.url,
      why: (error.cause as Error).message,
      next: 'check that the broker runs and that the address is right: --broker URL, or brokkr up',
    }
  if (isApiError(error))
    return {
      what: 'the broker refused',
      why: error.message,
      code: [error.code, ...(error.requestId === undefined ? [] : [`request ${error.requestId}`])].join(' · '),
      next: suggestNextStep(error),
    }
  return { what: error instanceof Error ? error.message : String(error) }
}

const nextSteps: Readonly<Record<string, string>> = {
  unauthorized: 'check the PAK: --pak-file FILE, or BROKKR_PAK_FILE',
  stack_moved: 'check the stack (brokkr describe stack NAME), then run it again',
  plan_outdated: 'make a new plan (brokkr plan -f FILE --stack NAME), read it, then apply that one',
  plan_not_found: 'make a plan: brokkr plan -f FILE --stack NAME',
  deployment_object_not_found: 'choose one of brokkr stacks history NAME',
  promotion_conflict: 'look at the pipeline (brokkr pipeline explain NAME) and decide anew',
  pipelines_unavailable: 'check that `brokkr pipelines` runs and that broker.pipelines_url and broker.pipelines_key are right',
}
const suggestNextStep = (error: Rejection): string | undefined => nextSteps[error.code] ?? error.next

/** Formats an age: `12 s`, `3 min`, `5 h`, `2 d`. */
export function age(at: string | null, nowMs: number = Date.now()): string {
  if (at === null) return 'never'
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(at)) / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}
