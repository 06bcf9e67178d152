// Events out of the lines of a watch. Pure.
import { errorOfStatus } from './answer-error.ts'
import { KubeError } from './api-error.ts'
import { isFields, textAt } from './fields.ts'
import { decodeJson } from './json.ts'
import type { WatchEvent } from './kube.ts'
import type { Fields, Kind } from './object.ts'

/** Hands the events over in one portion. One that is bad is thrown, after what came before it was handed over. */
export function takeEvents(what: string, lines: readonly string[], kind: Kind, take: (events: WatchEvent[]) => void): void {
  const events: WatchEvent[] = []
  try {
    for (const line of lines) events.push(eventOf(what, decodeLine(what, line), kind))
  } finally {
    if (events.length > 0) take(events)
  }
}

function decodeLine(what: string, line: string): unknown {
  try {
    return decodeJson(line)
  } catch (cause) {
    throw new KubeError(`${what}: an event of ${line.length} characters is not JSON`, { reason: 'BadAnswer', cause })
  }
}

const TYPES: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])

const kindOnly = ({ apiVersion, kind }: Kind): Kind => ({ apiVersion, kind })

function eventOf(what: string, event: unknown, kind: Kind): WatchEvent {
  const { type, object } = isFields(event) ? event : ({} as Fields)
  if (type === 'ERROR') throw errorOfStatus(what, object)
  if (!TYPES.has(type) || !isFields(object) || !isFields(object['metadata']))
    throw new KubeError(`${what}: ${JSON.stringify(textAt(event, 'type') ?? null)} is not an event we know`, { reason: 'BadAnswer' })
  // Metadata alone calls itself PartialObjectMetadata. What is right already is not written: a store costs more than a look.
  if (object['kind'] !== kind.kind || object['apiVersion'] !== kind.apiVersion) Object.assign(object, kindOnly(kind))
  return event as WatchEvent
}
