// The regular expressions of conditions. The language itself holds no engine: whoever compiles or checks a condition hands one in,
// so that a user's pattern cannot reach the engine of the platform, whose worst case is exponential.

export interface PatternEngine {
  /** A search anywhere in the text, in time linear in its length. Throws PatternRefused. */
  compile(pattern: string): (text: string) => boolean
}

export class PatternRefused extends Error {
  override name = 'PatternRefused'
}
