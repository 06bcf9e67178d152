// Parses a duration: `300`, `90s`, `5m`, `1.5h`. A number without a unit is in seconds.
import { CliError, exitCodes } from './output.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }
const longestMs = 7 * 24 * unitMs.h

export function parseDuration(text: string, option: string): number {
  const [, digits, unit = 's'] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)?$/.exec(text.trim()) ?? []
  const ms = Number(digits) * unitMs[unit as keyof typeof unitMs]
  if (ms > 0 && ms <= longestMs) return ms
  throw new CliError(`${option}: "${text}" is not a duration`, {
    next: `give seconds or a unit, up to a week: ${option} 90, ${option} 90s, ${option} 5m, ${option} 1h`,
    exitCode: exitCodes.usage,
  })
}
