// Takes the values of Secrets out of texts that others wrote: an admission refusal may quote what it refused. Pure.
import type { KubeObject } from '@brokkr/kube/object.ts'

/** Shorter values would blot out half of every sentence, and nobody can hide a value of three characters anyway. */
const charsMin = 4

export function scrub(text: string, objects: readonly KubeObject[]): string {
  const values = objects.filter(({ kind, apiVersion }) => kind === 'Secret' && apiVersion === 'v1').flatMap(valuesOf)
  const longFirst = [...new Set(values)].filter((value) => value.length >= charsMin).toSorted((a, b) => b.length - a.length)
  return longFirst.reduce((cleaned, value) => cleaned.replaceAll(value, '***'), text)
}

function valuesOf(secret: KubeObject): string[] {
  const plain = texts(secret['stringData'])
  const encoded = texts(secret['data'])
  const decoded = encoded.map((value) => Buffer.from(value, 'base64').toString('utf8'))
  return [...plain, ...encoded, ...decoded, ...plain.map((value) => Buffer.from(value).toString('base64'))]
}

/** Wherever it stands: a number, a list or a bare text where none belongs is refused by the API server, in words that quote it. */
function texts(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value === 'number' || typeof value === 'bigint') return [`${value}`]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(texts) : []
}
