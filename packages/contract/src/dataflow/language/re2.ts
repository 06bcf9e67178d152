// Engine for user patterns: RE2 syntax, linear time, no native build.
import { RE2JS, RE2JSException } from 're2js'
import { patternSize } from './pattern-size.ts'
import { type PatternEngine, PatternRefused } from './patterns.ts'

/** Matching costs up to text length × program size: at this size 100 KiB of hostile text take about a second. */
const programSizeMax = 256

export const re2: PatternEngine = {
  compile(pattern) {
    // The estimate prevents the compiler from expanding a million steps before they are counted.
    if (patternSize(pattern) > 2 * programSizeMax) throw tooLarge()
    const program = compileProgram(pattern)
    if (program.programSize() > programSizeMax) throw tooLarge()
    return (text) => program.test(text)
  },
}

const tooLarge = (): PatternRefused =>
  new PatternRefused(`a smaller pattern: it has more than ${programSizeMax} steps once its repetitions are written out`)

function compileProgram(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    throw new PatternRefused(`a pattern in RE2 syntax (${error.message.replace('error parsing regexp: ', '')})`, { cause: error })
  }
}
