// Evaluates expressions. Every kind of value and every operation is handled here or in the tables of filters, tests and functions; nothing
// reaches a property of a JavaScript object.
import type { Budget } from './budget.ts'
import { filters, functions } from './builtins.ts'
import { compute, formatJsonFraction, type TemplateNumber, toFloat } from './numbers.ts'
import type { Scopes } from './scopes.ts'
import type { Call, Expression, Path } from './syntax-tree.ts'
import { MissingName, RenderError } from './template-errors.ts'
import { tests } from './tests.ts'
import { describeKind, equals, isList, isMap, isNumber, isTruthy, printValue, type Value } from './values.ts'

export interface EvaluationContext {
  readonly scopes: Scopes
  readonly budget: Budget
  /** The instant that `now` returns. */
  readonly now: Date
  readonly callMacro: (call: Call) => string
}
type ExpressionOf<Is extends Expression['is']> = Extract<Expression, { is: Is }>

export function evaluate(context: EvaluationContext, expression: Expression): Value {
  context.budget.step()
  switch (expression.is) {
    case 'literal':
      return expression.value
    case 'path':
      return requireValue(context, expression)
    case 'array':
      context.budget.items(expression.items.length)
      return expression.items.map((item) => evaluate(context, item))
    case 'concat':
      return concatenate(context, expression)
    case 'call':
      return callFunction(context, expression)
    case 'macro':
      return context.callMacro(expression)
    case 'math':
      return evaluateNumber(context, expression) ?? 'NaN'
    case 'filtered':
      return applyFilters(context, expression)
    case 'not':
    case 'logic':
    case 'compare':
    case 'in':
    case 'test':
    default:
      return evaluateBoolean(context, expression)
  }
}

/** As a condition: a missing name is false. */
export function evaluateBoolean(context: EvaluationContext, expression: Expression): boolean {
  context.budget.step()
  switch (expression.is) {
    case 'not':
      return !evaluateBoolean(context, expression.value)
    case 'logic':
      return evaluateLogic(context, expression)
    case 'compare':
      return compareValues(context, expression)
    case 'in':
      return isIn(evaluate(context, expression.left), evaluate(context, expression.right)) !== expression.isNegated
    case 'test':
      return runTest(context, expression)
    case 'math':
      return toFloat(evaluateNumber(context, expression) ?? 0) !== 0
    case 'call':
      throw new RenderError(`${expression.name} is not a condition`)
    case 'literal':
    case 'path':
    case 'array':
    case 'concat':
    case 'macro':
    case 'filtered':
    default:
      return isTruthyOrMissing(context, expression)
  }
}

function isTruthyOrMissing(context: EvaluationContext, expression: Expression): boolean {
  try {
    return isTruthy(evaluate(context, expression))
  } catch (error) {
    if (error instanceof MissingName && isName(expression)) return false
    throw error
  }
}

const isName = (expression: Expression): boolean =>
  expression.is === 'path' || (expression.is === 'filtered' && expression.value.is === 'path')

function lookUp(context: EvaluationContext, path: Path): Value | undefined {
  const segments = path.segments.map((segment) => (typeof segment === 'string' ? segment : toIndex(context, segment)))
  return context.scopes.find(path.name, segments)
}

function toIndex(context: EvaluationContext, path: Path): string {
  const value = evaluate(context, path)
  if (typeof value === 'string') return value
  if (isNumber(value)) return printValue(value)
  throw new RenderError(`${path.name} is used as an index and must be a text or a number, not ${describeKind(value)}`)
}

function requireValue(context: EvaluationContext, path: Path): Value {
  const value = lookUp(context, path)
  if (value !== undefined) return value
  const { name, segments } = path
  const shown = [name, ...segments.map((segment) => (typeof segment === 'string' ? segment : '…'))].join('.')
  throw new MissingName(`${shown} is not defined`)
}

/** Texts and numbers; a number in its JSON form unless it is written in the template. */
function concatenate(context: EvaluationContext, { parts }: ExpressionOf<'concat'>): string {
  let text = ''
  for (const part of parts) {
    const value = evaluate(context, part)
    if (typeof value !== 'string' && !isNumber(value)) throw new RenderError(`~ joins texts and numbers, not ${describeKind(value)}`)
    const piece = typeof value === 'number' && part.is !== 'literal' ? formatJsonFraction(value) : printValue(value)
    context.budget.text(text.length + piece.length)
    text += piece
  }
  return text
}

function evaluateLogic(context: EvaluationContext, { operator, left, right }: ExpressionOf<'logic'>): boolean {
  const isLeft = evaluateBoolean(context, left)
  if (operator === 'or') return isLeft || evaluateBoolean(context, right)
  return isLeft && evaluateBoolean(context, right)
}

function compareValues(context: EvaluationContext, { operator, left, right }: ExpressionOf<'compare'>): boolean {
  if (operator === '==' || operator === '!=') {
    const [one, other] = [evaluate(context, left), evaluate(context, right)]
    // A number compared with another kind is neither equal nor unequal, as in the first version.
    if (isNumber(one) !== isNumber(other)) return false
    const isEqual = isNumber(one) && isNumber(other) ? toFloat(one) === toFloat(other) : equals(one, other)
    return isEqual === (operator === '==')
  }
  const [one, other] = [evaluateNumber(context, left), evaluateNumber(context, right)]
  if (one === null || other === null) throw new RenderError(`${operator} cannot compare with a result that is not a number`)
  const difference = toFloat(one) - toFloat(other)
  if (operator === '<') return difference < 0
  if (operator === '<=') return difference <= 0
  return operator === '>' ? difference > 0 : difference >= 0
}

function isIn(item: Value, container: Value): boolean {
  if (isList(container)) return container.some((entry) => equals(entry, item))
  if (typeof item !== 'string') throw new RenderError(`in searches ${describeKind(container)} for a text, not for ${describeKind(item)}`)
  if (typeof container === 'string') return container.includes(item)
  if (container !== null && typeof container === 'object' && isMap(container)) return container.has(item)
  throw new RenderError(`in searches texts, lists and objects, not ${describeKind(container)}`)
}

/** Null: not a number, for example after a division by zero. */
function evaluateNumber(context: EvaluationContext, expression: Expression): TemplateNumber | null {
  if (expression.is !== 'math') {
    const value = evaluate(context, expression)
    if (isNumber(value)) return value
    throw new RenderError(`arithmetic and order need numbers, not ${describeKind(value)}`)
  }
  context.budget.step()
  const [left, right] = [evaluateNumber(context, expression.left), evaluateNumber(context, expression.right)]
  return left === null || right === null ? null : compute(expression.operator, left, right)
}

function runTest(context: EvaluationContext, { path, name, args, isNegated }: ExpressionOf<'test'>): boolean {
  const test = tests.get(name) ?? fail(`${name} is not a test of templates`)
  const values = args.map((argument) => evaluate(context, argument))
  return test(findForTest(context, path), values) !== isNegated
}

function findForTest(context: EvaluationContext, path: Path): Value | undefined {
  try {
    return lookUp(context, path)
  } catch (error) {
    if (error instanceof MissingName) return undefined
    throw error
  }
}

function callFunction(context: EvaluationContext, { name, args }: Call): Value {
  const call = functions.get(name) ?? fail(`${name} is not a function of templates`)
  return call(context, evaluateArguments(context, args))
}

function applyFilters(context: EvaluationContext, { value, filters: calls }: ExpressionOf<'filtered'>): Value {
  let result = evaluateDefault(context, value, calls[0])
  for (const { name, args } of calls) {
    // Handled before: only the first filter of a name can replace a missing value.
    if (name === 'default') continue
    const filter = filters.get(name) ?? fail(`${name} is not a filter of templates`)
    context.budget.step()
    result = filter(context.budget, result, { filter: name, values: evaluateArguments(context, args) })
  }
  return result
}

function evaluateDefault(context: EvaluationContext, value: Expression, first: Call | undefined): Value {
  if (value.is !== 'path' || first?.name !== 'default') return evaluate(context, value)
  context.budget.step()
  const present = findForTest(context, value)
  if (present !== undefined && present !== null) return present
  const fallback = first.args.get('value') ?? fail('the filter default needs the argument value')
  return evaluate(context, fallback)
}

const evaluateArguments = (context: EvaluationContext, args: Call['args']): ReadonlyMap<string, Value> =>
  new Map([...args].map(([name, argument]) => [name, evaluate(context, argument)]))

function fail(message: string): never {
  throw new RenderError(message)
}
