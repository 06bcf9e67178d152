// Everything that is wrong with a configuration, said at once: which key, where it was given, what is wrong, what would be
// right. A secret's value is never part of it.
import { Terminal } from './errors.ts'
import { cleanText } from './redact-text.ts'

export type Problem = {
  path: string
  /** `file broker.toml`, `env BROKKR__SERVER__PORT`, `flag server.port`; empty when nobody gave the key. */
  where: string
  problem: string
}

const linesMax = 50

export class ConfigError extends Terminal {
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    super(textOf(problems), { code: 'config_invalid' })
    this.problems = problems
  }
}

function textOf(problems: readonly Problem[]): string {
  const lines = problems
    .slice(0, linesMax)
    .map(({ path, where, problem }) => `  ${[path, where && `(${where})`].filter(Boolean).join(' ')}: ${problem}`)
  const more = problems.length > linesMax ? [`  … and ${problems.length - linesMax} more`] : []
  return [`the configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:`, ...lines, ...more].join('\n')
}

/** A value as a person wrote it, short and without credentials. */
export function shownValue(value: unknown): string {
  return cleanText(JSON.stringify(value) ?? String(value), 80)
}

/** "; did you mean server.host?" or nothing when no name is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  return near === null ? '' : `; did you mean ${near}?`
}

/** The name with the fewest changes, if they are few compared with its length. */
export function nearest(name: string, known: readonly string[]): string | null {
  const wanted = name.slice(0, 200).toLowerCase()
  const ranked = known
    .map((candidate) => ({ candidate, distance: distanceOf(wanted, candidate.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance)
  const best = ranked[0]
  return best && best.distance <= Math.max(2, Math.floor(wanted.length / 3)) ? best.candidate : null
}

/** Levenshtein: insertions, removals and replacements, row by row. */
function distanceOf(a: string, b: string): number {
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
