// Builds requests and reads responses: query, delete options, objects from text. Pure.

import { isFields } from './fields.ts'
import { decodeJson } from './json.ts'
import type { ApplyOptions, DeleteOptions, WriteOptions, Written } from './kube.ts'
import type { Kind, KubeObject } from './object.ts'
import { type Query, withQuery } from './paths.ts'
import { type KubeResponse, notAnApiServer } from './response-error.ts'

export const writeQuery = (options: WriteOptions): Query => ({
  fieldManager: options.fieldManager,
  dryRun: options.dryRun ? 'All' : undefined,
  fieldValidation: options.fieldValidation,
})

/** Caches query strings: a set is applied by thousands of calls with few different queries. */
export function applyQueries(): (options: ApplyOptions) => string {
  const queries = new Map<string, string>()
  return (options) => {
    const { fieldManager, fieldValidation = '', dryRun = false, force = false } = options
    const key = `${fieldManager} ${fieldValidation} ${dryRun} ${force}`
    const before = queries.get(key)
    if (before !== undefined) return before
    const query = withQuery('', { ...writeQuery(options), force: force || undefined })
    if (queries.size >= QUERIES_MAX) queries.clear()
    queries.set(key, query)
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

/** A metadata response has the kind PartialObjectMetadata; the result has the requested kind instead. */
export function readObject(answer: KubeResponse, kind: Kind): KubeObject {
  const value = parseOrUndefined(answer.text)
  if (!isFields(value) || typeof value['kind'] !== 'string') throw notAnApiServer(`answer for ${kind.kind}`, answer)
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

/** Parses the response of a dry run only on access, which is rare. A response that is not an object throws at once. */
export function readWritten(answer: KubeResponse, kind: Kind, { tookMs, isTrial }: { tookMs: number; isTrial: boolean }): Written {
  const created = answer.status === 201
  let object = isTrial && answer.text.startsWith('{') ? undefined : readObject(answer, kind)
  return {
    get object() {
      return (object ??= readObject(answer, kind))
    },
    tookMs,
    created,
    get serverTimeMs() {
      const date = Date.parse(String(answer.headers['date'] ?? ''))
      return Number.isNaN(date) ? undefined : date
    },
    warnings: readWarnings(answer.headers['warning']),
  }
}

function readWarnings(warning: string | string[] | undefined): string[] {
  if (warning === undefined) return []
  return (Array.isArray(warning) ? warning : [warning]).map((text) => text.match(/^299 \S+ "(.*)"$/)?.[1] ?? text)
}
