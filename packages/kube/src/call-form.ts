// How calls are written and answers are read: query, delete options, objects out of text. Pure.
import { type Answer, notTheApiServer } from './answer-error.ts'
import { isFields } from './fields.ts'
import { decodeJson } from './json.ts'
import type { ApplyOptions, DeleteOptions, WriteOptions, Written } from './kube.ts'
import type { Kind, KubeObject } from './object.ts'
import { type Query, withQuery } from './paths.ts'

export const writeQuery = (options: WriteOptions): Query => ({
  fieldManager: options.fieldManager,
  dryRun: options.dryRun ? 'All' : undefined,
  fieldValidation: options.fieldValidation,
})

/** A set is applied by thousands of calls with the same few queries. */
export function applyQueries(): (options: ApplyOptions) => string {
  const known = new Map<string, string>()
  return (options) => {
    const { fieldManager, fieldValidation = '', dryRun = false, force = false } = options
    const key = `${fieldManager} ${fieldValidation} ${dryRun} ${force}`
    const before = known.get(key)
    if (before !== undefined) return before
    const query = withQuery('', { ...writeQuery(options), force: force || undefined })
    if (known.size >= QUERIES_MAX) known.clear()
    known.set(key, query)
    return query
  }
}

const QUERIES_MAX = 32

export function deleteBody(options: DeleteOptions): object {
  const { uid, resourceVersion } = options
  return {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    ...(uid || resourceVersion ? { preconditions: { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) } } : {}),
    propagationPolicy: options.propagation ?? 'Background',
    ...(options.gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds: options.gracePeriodSeconds }),
  }
}

/** A metadata answer calls itself PartialObjectMetadata; ours keeps the kind that was asked for. */
export function objectOf(answer: Answer, kind: Kind): KubeObject {
  const value = parseOrUndefined(answer.text)
  if (!isFields(value) || typeof value['kind'] !== 'string') throw notTheApiServer(`answer for ${kind.kind}`, answer)
  return (value['kind'] === 'PartialObjectMetadata' ? { ...value, ...kindOnly(kind) } : value) as KubeObject
}

const kindOnly = ({ apiVersion, kind }: Kind): Kind => ({ apiVersion, kind })

function parseOrUndefined(text: string): unknown {
  try {
    return decodeJson(text)
  } catch {
    return undefined
  }
}

/** The answer to a trial is read only if somebody asks for it, which mostly nobody does; what is no object is told at once all the same. */
export function writtenOf(answer: Answer, kind: Kind, { tookMs, isTrial }: { tookMs: number; isTrial: boolean }): Written {
  const created = answer.status === 201
  let object = isTrial && answer.text.startsWith('{') ? undefined : objectOf(answer, kind)
  return {
    get object() {
      return (object ??= objectOf(answer, kind))
    },
    tookMs,
    created,
    get serverTimeMs() {
      const date = Date.parse(String(answer.headers['date'] ?? ''))
      return Number.isNaN(date) ? undefined : date
    },
    warnings: warningsOf(answer.headers['warning']),
  }
}

function warningsOf(warning: string | string[] | undefined): string[] {
  if (warning === undefined) return []
  return (Array.isArray(warning) ? warning : [warning]).map((text) => text.match(/^299 \S+ "(.*)"$/)?.[1] ?? text)
}
