// Wildcards of keys and of the `%` operator: `*` any run, `?` one character, `\` escapes the next character. Time is at most text length ×
// pattern length, and patterns are short (wildcardLengthMax).

export const wildcardLengthMax = 128

interface Glob {
  readonly codes: readonly number[]
}
const anyRun = -1
const anyOne = -2

/** The result has no state. Characters are code points. */
export function compileGlob(pattern: string): (text: string) => boolean {
  const glob = { codes: parseTokens(pattern) }
  return (text) => matches(glob, text)
}

function parseTokens(pattern: string): number[] {
  const codes: number[] = []
  const characters = Array.from(pattern)
  for (let i = 0; i < characters.length; i += 1) {
    const character = characters[i]!
    if (character === '*') codes.push(anyRun)
    else if (character === '?') codes.push(anyOne)
    else codes.push((character === '\\' && i + 1 < characters.length ? characters[++i]! : character).codePointAt(0)!)
  }
  return codes
}

/** Greedy with one backtrack point: the run of the last `*` grows by one character at a time. */
function matches({ codes }: Glob, text: string): boolean {
  let at = 0
  let token = 0
  let runToken = -1
  let runAt = 0
  while (at < text.length) {
    const code = text.codePointAt(at)!
    const expected = codes[token]
    if (expected === anyRun) {
      runToken = token
      runAt = at
      token += 1
    } else if (expected === code || expected === anyOne) {
      at += widthOf(code)
      token += 1
    } else if (runToken < 0) {
      return false
    } else {
      runAt += widthOf(text.codePointAt(runAt)!)
      at = runAt
      token = runToken + 1
    }
  }
  while (codes[token] === anyRun) token += 1
  return token === codes.length
}

const widthOf = (code: number): number => (code > 0xffff ? 2 : 1)
