// Reads Kubernetes manifests for all programs, so that broker, agent, CLI and pipelines see the objects that `kubectl apply -f`
// would see, within the same limits. ADR 0033 explains why it is not a general YAML library.

import { readJsonDocuments } from './json-reader.ts'
import { isJsonObject, type JsonObject, type JsonValue } from './json-text.ts'
import { expandDocument } from './list-objects.ts'
import { ManifestError, syntaxError } from './manifest-error.ts'
import { type Budget, checkBytes, checkDocuments, type ManifestLimits, openBudget } from './manifest-limits.ts'
import { type ReadDocument, readYamlDocument } from './yaml/document.ts'
import { type Chunk, splitDocuments } from './yaml/split.ts'

export { type JsonObject, type JsonValue, jsonText } from './json-text.ts'
export { ManifestError } from './manifest-error.ts'
export { defaultManifestLimits, type ManifestLimits } from './manifest-limits.ts'

export interface ManifestDocument {
  readonly object: JsonObject
  /** Of the object's first token, from 1. */
  readonly line: number
  /** Among the objects of the manifest, from 0. */
  readonly index: number
  /** For messages: `document 2`, or `document 2, item 3` for the item of a list. Both count from 1; empty documents do not count. */
  readonly place: string
}

/** Throws a ManifestError. Skips empty documents and expands lists; no two objects share a part. A document that is not an object
 *  is an error, unless `onOdd` is given: then it is reported there and skipped. */
export function parseManifest(
  text: string,
  limits: Partial<ManifestLimits> = {},
  onOdd?: (odd: ManifestError) => void,
): ManifestDocument[] {
  return Array.from(readManifest(text, openBudget(limits), onOdd))
}

/** True when parseManifest would find no object. Reads no further than the first one, and never throws a ManifestError. */
export function isEmptyManifest(text: string): boolean {
  try {
    return readManifest(text, openBudget({})).next().done === true
  } catch (error) {
    if (error instanceof ManifestError) return false
    throw error
  }
}

/** One message per required field that an object lacks, with the location of the object. */
export function manifestWarnings(documents: readonly ManifestDocument[]): string[] {
  return documents.flatMap(({ object, place, line }) =>
    missingFields(object).map(
      (field) => `${place} (line ${line}): ${field} is missing or not a text, and no cluster takes the object without it`,
    ),
  )
}

function missingFields(object: JsonObject): string[] {
  const metadata = object['metadata']
  const fields: Record<string, JsonValue | undefined> = {
    apiVersion: object['apiVersion'],
    kind: object['kind'],
    'metadata.name': isJsonObject(metadata) ? metadata['name'] : undefined,
  }
  return Object.keys(fields).filter((field) => typeof fields[field] !== 'string' || fields[field] === '')
}

function* readManifest(text: string, budget: Budget, onOdd?: (odd: ManifestError) => void): Generator<ManifestDocument> {
  checkBytes(text, budget.limits.bytesMax, { what: 'the manifest', todo: 'split it into several manifests', place: null })
  checkSurrogates(text)
  let index = 0
  let count = 0
  for (const chunk of splitDocuments(text)) {
    for (const document of readChunk(chunk, budget)) {
      count += 1
      try {
        for (const found of expandDocument(document, `document ${count}`)) {
          checkDocuments(budget, index + 1, found.line)
          yield { ...found, index: index++ }
        }
      } catch (error) {
        if (onOdd === undefined || !(error instanceof ManifestError) || error.code !== 'not_an_object') throw error
        onOdd(error)
      }
    }
  }
}

function checkSurrogates(text: string): void {
  if (text.isWellFormed()) return
  const before = text.slice(0, text.search(/\p{Surrogate}/u)).split('\n')
  throw syntaxError({ line: before.length, column: (before.at(-1) ?? '').length + 1 }, 'half of a surrogate pair', 'send the text as UTF-8')
}

function readChunk(chunk: Chunk, budget: Budget): ReadDocument[] {
  checkBytes(chunk.text, budget.limits.documentBytesMax, {
    what: 'a document',
    todo: 'no API server takes one as large, make it smaller',
    place: { line: chunk.line, column: 1 },
  })
  const json = startsObject.test(chunk.text) ? readJsonDocuments(chunk, budget) : null
  const documents = json ?? [readYamlDocument(chunk, budget)]
  return documents.filter((document) => document !== undefined && document.value !== null) as ReadDocument[]
}

const startsObject = /^\s*\{/
