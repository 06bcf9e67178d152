// Numbers of templates: integers are bigints, fractions are doubles. Arithmetic and both printed forms follow the first version.
import type { MathOperator } from './syntax-tree.ts'
import { RenderError } from './template-errors.ts'

export type TemplateNumber = bigint | number

export const toFloat = (value: TemplateNumber): number => Number(value)

const [signedMin, signedMax, unsignedMax] = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n]
const isSigned = (value: TemplateNumber): value is bigint => typeof value === 'bigint' && value <= signedMax
const isUnsigned = (value: TemplateNumber): value is bigint => typeof value === 'bigint' && value >= 0n

/** Null: not a number. */
export function compute(operator: MathOperator, left: TemplateNumber, right: TemplateNumber): TemplateNumber | null {
  if (operator === '/') return divide(toFloat(left), toFloat(right))
  if (isSigned(left) && isSigned(right)) return bounded(computeIntegers(operator, left, right), signedMin, signedMax)
  if (isUnsigned(left) && isUnsigned(right)) return bounded(computeIntegers(operator, left, right), 0n, unsignedMax)
  const result = computeFloats(operator, toFloat(left), toFloat(right))
  return Number.isFinite(result) ? result : null
}

function divide(left: number, right: number): TemplateNumber | null {
  const result = left / right
  if (!Number.isFinite(result)) return null
  const isExact = Number.isInteger(result) && !Object.is(result, -0) && Math.abs(result) <= Number.MAX_SAFE_INTEGER
  return isExact ? BigInt(result) : result
}

type OtherOperator = Exclude<MathOperator, '/'>

function computeIntegers(operator: OtherOperator, left: bigint, right: bigint): bigint {
  if (operator === '+') return left + right
  if (operator === '-') return left - right
  if (operator === '*') return left * right
  if (right === 0n) throw new RenderError('the remainder of a division by zero is not defined')
  return left % right
}

function computeFloats(operator: OtherOperator, left: number, right: number): number {
  if (operator === '+') return left + right
  if (operator === '-') return left - right
  return operator === '*' ? left * right : left % right
}

function bounded(result: bigint, min: bigint, max: bigint): bigint {
  if (result < min || result > max) throw new RenderError('the result of an operation is outside the range of 64-bit integers')
  return result
}

/** Shortest decimal digits and the number of digits before the point. */
function toDigits(value: number): { readonly digits: string; readonly point: number } {
  const [mantissa = '0', exponent = '0'] = Math.abs(value).toExponential().split('e')
  return { digits: mantissa.replace('.', ''), point: Number(exponent) + 1 }
}

const sign = (value: number): string => (value < 0 || Object.is(value, -0) ? '-' : '')

/** Never an exponent and never a trailing `.0`: 2.0 is `2`, 1e21 has 22 digits. */
export function formatFraction(value: number): string {
  return sign(value) + placePoint(toDigits(value))
}

/** As in JSON: 2.0 is `2.0`, 1e21 is `1e+21`. */
export function formatJsonFraction(value: number): string {
  const { digits, point } = toDigits(value)
  if (value === 0) return `${sign(value)}0.0`
  if (point > 16 || point <= -5) {
    const mantissa = digits.length === 1 ? digits : `${digits[0]}.${digits.slice(1)}`
    return `${sign(value)}${mantissa}e${point > 0 ? '+' : ''}${point - 1}`
  }
  const plain = placePoint({ digits, point })
  return sign(value) + (plain.includes('.') ? plain : `${plain}.0`)
}

function placePoint({ digits, point }: { readonly digits: string; readonly point: number }): string {
  if (point <= 0) return digits === '0' ? '0' : `0.${'0'.repeat(-point)}${digits}`
  if (point >= digits.length) return digits + '0'.repeat(point - digits.length)
  return `${digits.slice(0, point)}.${digits.slice(point)}`
}
