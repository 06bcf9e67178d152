// Estimates the size of a pattern with its repetitions expanded, from its text. An engine compiles before it counts, which takes seconds
// for `((…){30}){30}`.

/** At least as many steps as characters to match; not much above the engine's count. */
export function patternSize(pattern: string): number {
  const levels: Level[] = [{ sum: 0, last: 0 }]
  for (let at = 0; at < pattern.length; ) at = step(pattern, at, levels)
  return levels.reduce((sum, level) => sum + level.sum + level.last, 0)
}

/** One level of parentheses: its size, and the size of the last piece, which a repetition multiplies. */
interface Level {
  sum: number
  last: number
}

function step(pattern: string, at: number, levels: Level[]): number {
  const level = levels.at(-1)!
  const character = pattern[at]!
  if (character === '{') return repeat(pattern, at, level)
  if (character === ')' && levels.length > 1) {
    levels.pop()
    add(levels.at(-1)!, level.sum + level.last)
    return at + 1
  }
  if (character === '(') levels.push({ sum: 0, last: 0 })
  else add(level, 1)
  if (character === '\\') return at + 2
  return character === '[' ? endOfClass(pattern, at) : at + 1
}

function add(level: Level, size: number): void {
  level.sum += level.last
  level.last = size
}

const repetition = /\{([0-9]{1,4})(,[0-9]{0,4})?\}/y

function repeat(pattern: string, at: number, level: Level): number {
  repetition.lastIndex = at
  const match = repetition.exec(pattern)
  if (match === null) {
    add(level, 1)
    return at + 1
  }
  level.last *= Math.max(Number(match[1]), Number(match[2]?.slice(1) ?? 0), 1)
  return at + match[0].length
}

/** Index after the bracket that closes a class; a bracket at its start is a member. */
function endOfClass(pattern: string, at: number): number {
  let end = at + (pattern[at + 1] === '^' ? 2 : 1) + 1
  while (end < pattern.length && pattern[end] !== ']') end += pattern[end] === '\\' ? 2 : 1
  return end + 1
}
