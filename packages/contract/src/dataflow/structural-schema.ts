// Converts a JSON schema to the structural form of a CustomResourceDefinition. Pure.

type Node = Record<string, unknown>

/** Key of a zod description: words that a text may be, in any case. */
export const wordsKey = 'x-words'
const wordLengthMax = 64

export function toStructural(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(toStructural)
  if (typeof node !== 'object' || node === null) return node
  const { $schema: _dialect, propertyNames: _names, anyOf, additionalProperties, [wordsKey]: words, ...rest } = node as Node
  if (Array.isArray(anyOf)) return toUnion(anyOf as Node[])
  const isEmpty = Object.keys(rest).length === 0 && additionalProperties === undefined
  if (isEmpty) return { 'x-kubernetes-preserve-unknown-fields': true }
  const fields = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, key === 'required' ? value : convert(key, value)]))
  return { ...fields, ...(Array.isArray(words) ? toCelRule(words as string[]) : {}), ...toAdditional(additionalProperties) }
}

/** Names of properties are no keywords. */
function convert(key: string, value: unknown): unknown {
  if (key !== 'properties') return toStructural(value)
  return Object.fromEntries(Object.entries(value as Node).map(([name, schema]) => [name, toStructural(schema)]))
}

function toAdditional(value: unknown): Node {
  if (value === undefined || value === false) return {}
  const isAny = value === true || Object.keys(value as Node).length === 0
  return isAny ? { 'x-kubernetes-preserve-unknown-fields': true } : { additionalProperties: toStructural(value) }
}

/** A quantity is text or a whole number; any other union is checked by the reader of specs. */
function toUnion(options: readonly Node[]): Node {
  const types = new Set(options.map(({ type }) => type))
  return types.size === 2 && types.has('string') && types.has('integer')
    ? { 'x-kubernetes-int-or-string': true }
    : { 'x-kubernetes-preserve-unknown-fields': true }
}

/** Empty text means an absent field. */
export function toCelRule(words: readonly string[], path?: string): Node {
  const list = words.map((word) => `'${word.toLowerCase()}'`).join(', ')
  const message = `${path === undefined ? '' : `${path}: `}use one of: ${words.toSorted().join(', ')}`
  return { maxLength: wordLengthMax, 'x-kubernetes-validations': [{ rule: `self.trim().lowerAscii() in ['', ${list}]`, message }] }
}
