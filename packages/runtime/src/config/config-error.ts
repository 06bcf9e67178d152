// All problems of a configuration in one error: path, source, problem, expected value. Never contains the value of a secret.
import { Terminal } from '../errors.ts'
import { redactText } from '../logging/redact-text.ts'

export type Problem = {
  path: string
  /** `file broker.toml`, `env BROKKR__SERVER__PORT`, `flag server.port`; empty if no source gave the setting. */
  where: string
  problem: string
}

/** Exit code of every program if its configuration is wrong: a restart without a change cannot help. */
export const wrongConfigurationExitCode = 2

const linesMax = 50

export class ConfigError extends Terminal {
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    super(formatProblems(problems), { code: 'config_invalid' })
    this.problems = problems
  }
}

function formatProblems(problems: readonly Problem[]): string {
  const lines = problems
    .slice(0, linesMax)
    .map(({ path, where, problem }) => `  ${[path, where && `(${where})`].filter(Boolean).join(' ')}: ${problem}`)
  const more = problems.length > linesMax ? [`  … and ${problems.length - linesMax} more`] : []
  return [`the configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:`, ...lines, ...more].join('\n')
}

/** A value as the user wrote it, shortened and redacted. */
export function formatValue(value: unknown): string {
  return redactText(JSON.stringify(value) ?? String(value), 80)
}

/** "; did you mean server.host?" or nothing when no name is near. */
export function suggestName(name: string, known: readonly string[]): string {
  const near = findNearestName(name, known)
  return near === null ? '' : `; did you mean ${near}?`
}

/** The name with the fewest changes, if they are few compared with its length. */
export function findNearestName(name: string, known: readonly string[]): string | null {
  const input = name.slice(0, 200).toLowerCase()
  const ranked = known
    .map((candidate) => ({ candidate, distance: editDistance(input, candidate.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance)
  const best = ranked[0]
  return best && best.distance <= Math.max(2, Math.floor(input.length / 3)) ? best.candidate : null
}

/** Levenshtein: insertions, removals and replacements, row by row. */
function editDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let row = 1; row <= a.length; row += 1) {
    const line = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = (above[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      line.push(Math.min(replaced, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1))
    }
    above = line
  }
  return above[b.length] ?? 0
}
