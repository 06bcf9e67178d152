// What people read: tables that fit a terminal, and errors that say what failed, where, why and what to type next.
// Data go to standard output, everything else to standard error.
import { ApiError } from '@brokkr/contract/error.ts'
import pc from 'picocolors'

/** An expected "no" of the command line itself; `exitCode` 2 is wrong use, 6 is "something is wrong out there". */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly where: string | undefined
  readonly next: string | undefined
  readonly exitCode: number

  constructor(message: string, options: { where?: string; next?: string; exitCode?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.where = options.where
    this.next = options.next
    this.exitCode = options.exitCode ?? 1
  }
}

export const print = (line = ''): void => void process.stdout.write(`${line}\n`)
export const tell = (line = ''): void => void process.stderr.write(`${line}\n`)

/** Names from elsewhere may hold escape sequences: they are shown, never obeyed. */
export const clean = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '·')

/** Columns as wide as their widest cell; the last one takes what it needs. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(clean))
  const widths = head.map((title, at) => Math.max(title.length, ...cells.map((row) => row[at]?.length ?? 0)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, at) => (at === head.length - 1 ? cell : cell.padEnd(widths[at]!)))
      .join('  ')
      .trimEnd()
  return [pc.bold(line(head)), ...cells.map(line)].join('\n')
}

/** Prints an error as a person needs it and returns the exit code. */
export function tellError(error: unknown): number {
  const lines = linesOf(error)
  tell(`${pc.red('error')}: ${clean(lines.what)}`)
  for (const [name, text] of [
    ['where', lines.where],
    ['why', lines.why],
    ['next', lines.next],
    ['code', lines.code],
  ] as const)
    if (text) tell(`  ${name.padEnd(6)}${clean(text)}`)
  return error instanceof CliError ? error.exitCode : 1
}

interface ErrorLines {
  readonly what: string
  readonly where?: string | undefined
  readonly why?: string | undefined
  readonly next?: string | undefined
  readonly code?: string | undefined
}

function linesOf(error: unknown): ErrorLines {
  if (error instanceof CliError)
    return {
      what: error.message,
      where: error.where,
      next: error.next,
      why: error.cause instanceof Error ? error.cause.message : undefined,
    }
  if (error instanceof ApiError) return { what: 'the broker refused', why: error.message, code: error.code, next: nextOf(error) }
  return { what: error instanceof Error ? error.message : String(error) }
}

const nextOf = ({ code }: ApiError): string | undefined =>
  code === 'unauthorized'
    ? 'check the key: --pak-file FILE, or BROKKR_PAK_FILE'
    : code === 'stack_moved'
      ? 'look at the stack (brokkr describe stack NAME) and decide anew'
      : undefined

/** `12 s`, `3 min`, `5 h`, `2 d`: how old knowledge is. */
export function age(at: string | null, nowMs: number = Date.now()): string {
  if (at === null) return 'never'
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(at)) / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}
