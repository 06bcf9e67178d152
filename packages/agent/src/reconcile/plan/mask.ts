// Removes Secret values from error texts and diffs before they are sent to the broker. API server errors can quote the object. Names of
// keys stay. Covers Secrets at any depth.
import { createHmac, randomBytes } from 'node:crypto'
import { encodeJson, type Fields, isFields, type KubeObject, parsePointer, valueAt } from '@brokkr/kube'
import { findChangedPaths } from './field-diff.ts'

/** One path that differs; a side is absent if there is no value. */
export interface MaskedChange {
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}

/** A secret value shows as `***#` and a fingerprint, which is equal for equal values within one plan only. */
export function diffMasked(before: KubeObject, after: KubeObject, max: number, planKey: Buffer = randomBytes(32)): MaskedChange[] {
  const toFingerprint = (value: unknown) => `***#${createHmac('sha256', planKey).update(encodeJson(value)).digest('hex').slice(0, 12)}`
  const [left, right] = [maskValue(before, toFingerprint), maskValue(after, toFingerprint)] as [KubeObject, KubeObject]
  return findChangedPaths(left, right, max).map((path) => {
    const steps = parsePointer(path) ?? []
    const [beforeValue, afterValue] = [valueAt(left, ...steps), valueAt(right, ...steps)]
    return {
      path,
      ...(beforeValue === undefined ? {} : { before: beforeValue }),
      ...(afterValue === undefined ? {} : { after: afterValue }),
    }
  })
}

/** The text without any Secret value of these objects, in every encoding that an error may quote. */
export const maskText = (text: string, objects: readonly KubeObject[]): string => createTextMask(objects)(text)

/** For many texts about the same objects: their Secret values are listed once, with the first text. */
export function createTextMask(objects: readonly KubeObject[]): (text: string) => string {
  let longFirst: readonly string[] | undefined
  return (text) => {
    longFirst ??= listSecretTexts(objects)
    return longFirst.reduce((cleaned, value) => cleaned.replaceAll(value, '***'), text)
  }
}

function listSecretTexts(objects: readonly KubeObject[]): string[] {
  const values: string[] = []
  visitSecretValues(objects, (value) => values.push(...listEncodings(value)))
  return [...new Set(values)].filter((value) => value.length >= charsMin).toSorted((a, b) => b.length - a.length)
}

/** Shorter values would mask parts of ordinary words. */
const charsMin = 4

const visitSecretValues = (value: unknown, visit: (value: unknown) => void): void => void maskValue(value, visit)

/** Copy with every secret value replaced by `hide`. */
function maskValue(value: unknown, hide: (value: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => maskValue(item, hide))
  if (!isFields(value)) return value
  const isSecret = value['kind'] === 'Secret'
  return mapFields(isSecret ? mergeStringData(value) : value, (key, item) => {
    if (isSecret && (key === 'data' || key === 'stringData')) return mapLeaves(item, hide)
    // kubectl stores a copy of the whole object in this annotation.
    return key.endsWith('last-applied-configuration') && item !== undefined ? hide(item) : maskValue(item, hide)
  })
}

/** stringData is merged into data, because the API server returns it encoded. */
function mergeStringData(secret: Fields): Fields {
  const { stringData, ...rest } = secret
  if (!isFields(stringData) || !Object.values(stringData).every((value) => typeof value === 'string')) return secret
  const encoded = mapFields(stringData, (_, value) => Buffer.from(value as string).toString('base64'))
  return { ...rest, data: { ...(isFields(rest['data']) ? rest['data'] : {}), ...encoded } }
}

function mapLeaves(value: unknown, hide: (value: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => mapLeaves(item, hide))
  return isFields(value) ? mapFields(value, (_, item) => mapLeaves(item, hide)) : hide(value)
}

const mapFields = (fields: Fields, change: (key: string, item: unknown) => unknown): Fields =>
  Object.fromEntries(Object.entries(fields).map(([key, item]) => [key, change(key, item)]))

/** All texts under which a value can appear: plain, base64, decoded, JSON-escaped, single lines, and Secret values in
 *  last-applied-configuration. */
function listEncodings(value: unknown): string[] {
  // The API server rejects a number in place of a text with an error that quotes it.
  if (typeof value === 'number' || typeof value === 'bigint') return [`${value}`]
  if (typeof value !== 'string') return []
  const decoded = Buffer.from(value, 'base64').toString('utf8')
  const plain = [value, decoded].flatMap((text) => [text, JSON.stringify(text).slice(1, -1), ...splitLines(text)])
  return [...plain, Buffer.from(value).toString('base64'), ...listSecretsInLastApplied(value)]
}

/** One line of a key or file is secret too; short lines are ordinary words. */
const splitLines = (text: string): string[] => text.split('\n').filter((line) => line.trim().length >= 8)

function listSecretsInLastApplied(text: string): string[] {
  if (!text.startsWith('{')) return []
  try {
    const values: string[] = []
    visitSecretValues(JSON.parse(text), (value) => values.push(...listEncodings(value)))
    return values
  } catch {
    return []
  }
}
