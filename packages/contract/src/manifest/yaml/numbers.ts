// Which plain scalars are numbers, and which number each is: the rules of the YAML library of Kubernetes, where 0644 is octal, 08 is
// eight, underscores are dropped, and what does not fit 64 bits or a double stays text.

export type YamlNumber =
  | { readonly type: 'int'; readonly value: bigint }
  /** Beyond int64, within uint64. */
  | { readonly type: 'uint'; readonly value: bigint }
  | { readonly type: 'float'; readonly value: number }

const integer = /^([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))$/
const signedBinary = /^0b([-+])([01]+)$/
const decimal = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/
const special: ReadonlyMap<string, number> = new Map([
  ...['.nan', '.NaN', '.NAN'].map((word) => [word, Number.NaN] as const),
  ...['.inf', '.Inf', '.INF', '+.inf', '+.Inf', '+.INF'].map((word) => [word, Number.POSITIVE_INFINITY] as const),
  ...['-.inf', '-.Inf', '-.INF'].map((word) => [word, Number.NEGATIVE_INFINITY] as const),
])
const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n }
const uint64Max = 2n ** 64n - 1n
/** Longer runs of digits overflow every type, so BigInt never sees one. */
const digitsMax = 400

export function resolveNumber(text: string): YamlNumber | null {
  const word = special.get(text)
  if (word !== undefined) return { type: 'float', value: word }
  // Behind a leading dot an underscore counts only between two digits; elsewhere it may stand anywhere.
  const digits = text.startsWith('.') ? text.replace(/(?<=[0-9])_(?=[0-9])/g, '') : text.replaceAll('_', '')
  return resolveInteger(digits) ?? resolveFloat(digits)
}

function resolveInteger(digits: string): YamlNumber | null {
  if (digits.length > digitsMax) return null
  const [, sign = '', hex, binary, octal, plain] = integer.exec(digits) ?? binaryWithSign(digits)
  const body = hex ? `0x${hex}` : binary ? `0b${binary}` : octal ? `0o${octal}` : plain
  if (body === undefined) return null
  const value = sign === '-' ? -BigInt(body) : BigInt(body)
  if (value >= int64.min && value <= int64.max) return { type: 'int', value }
  return sign === '' && value <= uint64Max ? { type: 'uint', value } : null
}

function binaryWithSign(digits: string): (string | undefined)[] {
  const [, sign, binary] = signedBinary.exec(digits) ?? []
  return [digits, sign, undefined, binary]
}

function resolveFloat(digits: string): YamlNumber | null {
  if (!decimal.test(digits)) return null
  const value = Number(digits)
  return Number.isFinite(value) ? { type: 'float', value } : null
}

/** A float as a key: the shortest digits that give the same 32-bit float, with an exponent below 1e-4 and from 1e6 on. */
export function floatKey(value: number): string {
  const single = Math.fround(value)
  if (Number.isNaN(single)) return '.nan'
  if (!Number.isFinite(single)) return single > 0 ? '.inf' : '-.inf'
  if (single === 0) return Object.is(single, -0) ? '-0' : '0'
  const exponential = shortestExponential(single)
  const [mantissa = '', exponent = ''] = exponential.split('e')
  const power = Number(exponent)
  if (power >= -4 && power < 6) return String(Number(exponential))
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
}

function shortestExponential(single: number): string {
  for (let digits = 0; digits < 9; digits++) {
    const text = single.toExponential(digits)
    if (Math.fround(Number(text)) === single) return text
  }
  return single.toExponential()
}
