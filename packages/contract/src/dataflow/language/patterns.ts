// Interface for the regular expressions of conditions. Callers pass an engine, so that a user's pattern never reaches the platform's
// engine, whose worst case is exponential.

export interface PatternEngine {
  /** Searches anywhere in the text, in linear time. Throws PatternRefused. */
  compile(pattern: string): (text: string) => boolean
}

export class PatternRefused extends Error {
  override name = 'PatternRefused'
}
