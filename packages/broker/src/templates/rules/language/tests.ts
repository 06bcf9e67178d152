// Tests of templates: `x is name` and `x is name(argument)`.
import { RE2JS, RE2JSException } from 're2js'
import { toFloat } from './numbers.ts'
import { RenderError } from './template-errors.ts'
import { describeKind, equals, isList, isMap, isNumber, type Value } from './values.ts'

/** `value` is undefined for a name that is not defined. */
type Test = (value: Value | undefined, args: readonly Value[]) => boolean

/** All other tests need a defined value. */
const ofValue =
  (name: string, test: (value: Value, argument: Value | undefined) => boolean): Test =>
  (value, args) => {
    if (value === undefined) throw new RenderError(`the test ${name} needs a name that is defined`)
    return test(value, args[0])
  }

const ofTexts = (name: string, test: (text: string, argument: string) => boolean): Test =>
  ofValue(name, (value, argument) => test(requireText(name, value), requireText(name, argument)))

const table: Readonly<Record<string, Test>> = {
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
  odd: ofValue('odd', (value) => requireNumber('odd', value) % 2 !== 0),
  even: ofValue('even', (value) => requireNumber('even', value) % 2 === 0),
  divisibleby: ofValue(
    'divisibleby',
    (value, argument) => requireNumber('divisibleby', value) % requireNumber('divisibleby', argument) === 0,
  ),
  string: ofValue('string', (value) => typeof value === 'string'),
  number: ofValue('number', isNumber),
  iterable: ofValue('iterable', (value) => isList(value) || isObject(value)),
  object: ofValue('object', isObject),
  starting_with: ofTexts('starting_with', (text, start) => text.startsWith(start)),
  ending_with: ofTexts('ending_with', (text, end) => text.endsWith(end)),
  containing: ofValue('containing', contains),
  matching: ofTexts('matching', (text, pattern) => compilePattern(pattern).test(text)),
}
export const tests: ReadonlyMap<string, Test> = new Map(Object.entries(table))

function isObject(value: Value): boolean {
  return value !== null && typeof value === 'object' && isMap(value)
}

function contains(value: Value, argument: Value | undefined): boolean {
  if (argument === undefined) throw new RenderError('the test containing needs an argument')
  if (isList(value)) return value.some((item) => equals(item, argument))
  const text = requireText('containing', argument)
  if (value !== null && typeof value === 'object' && isMap(value)) return value.has(text)
  return requireText('containing', value).includes(text)
}

/** Linear time in the length of the text. */
function compilePattern(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    if (error instanceof RE2JSException) throw new RenderError('the test matching needs a pattern in RE2 syntax')
    throw error
  }
}

function requireText(test: string, value: Value | undefined): string {
  if (typeof value === 'string') return value
  throw new RenderError(`the test ${test} needs a text${value === undefined ? ' as argument' : `, not ${describeKind(value)}`}`)
}

function requireNumber(test: string, value: Value | undefined): number {
  if (value !== undefined && isNumber(value)) return toFloat(value)
  throw new RenderError(`the test ${test} needs a number${value === undefined ? ' as argument' : `, not ${describeKind(value)}`}`)
}
