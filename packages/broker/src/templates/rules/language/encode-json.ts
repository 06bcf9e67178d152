// Writes a value as JSON: objects by key, integers exactly, fractions with a point or an exponent.
import type { Budget } from './budget.ts'
import { formatJsonFraction } from './numbers.ts'
import { isMap, type Value } from './values.ts'

export function encodeJson(budget: Budget, value: Value, isPretty: boolean): string {
  const parts: string[] = []
  const write = (part: string): void => {
    budget.text(part.length)
    parts.push(part)
  }
  writeValue(write, value, isPretty ? '\n' : '')
  return parts.join('')
}

/** `lineBreak`: a line break and the indentation of the current level, or empty for compact JSON. */
function writeValue(write: (part: string) => void, value: Value, lineBreak: string): void {
  if (value === null || typeof value !== 'object') return write(encodeScalar(value))
  const entries = isMap(value) ? [...value] : value.map((item) => [null, item] as const)
  const [open, close] = isMap(value) ? ['{', '}'] : ['[', ']']
  if (entries.length === 0) return write(open + close)
  const inner = lineBreak === '' ? '' : `${lineBreak}  `
  for (const [index, [key, item]] of entries.entries()) {
    const name = key === null ? '' : `${JSON.stringify(key)}:${inner === '' ? '' : ' '}`
    write(`${index === 0 ? open : ','}${inner}${name}`)
    writeValue(write, item, inner)
  }
  write(lineBreak + close)
}

function encodeScalar(value: null | boolean | bigint | number | string): string {
  if (typeof value === 'number') return formatJsonFraction(value)
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value)
}
