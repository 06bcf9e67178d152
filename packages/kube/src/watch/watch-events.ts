// Decodes watch events from lines. Pure.

import { isFields, textAt } from '../client/fields.ts'
import { decodeJson } from '../client/json.ts'
import type { WatchEvent } from '../client/kube.ts'
import { KubeError } from '../client/kube-error.ts'
import type { Fields, Kind } from '../client/object.ts'
import { toStatusError } from '../client/response-error.ts'

/** Passes the events on in one batch. Throws on an invalid event, after passing on those before it. */
export function takeEvents(what: string, lines: readonly string[], kind: Kind, take: (events: WatchEvent[]) => void): void {
  const events: WatchEvent[] = []
  try {
    for (const line of lines) events.push(toWatchEvent(what, decodeLine(what, line), kind))
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

function toWatchEvent(what: string, event: unknown, kind: Kind): WatchEvent {
  const { type, object } = isFields(event) ? event : ({} as Fields)
  if (type === 'ERROR') throw toStatusError(what, object)
  if (!TYPES.has(type) || !isFields(object) || !isFields(object['metadata']))
    throw new KubeError(`${what}: ${JSON.stringify(textAt(event, 'type') ?? null)} is not a known event`, { reason: 'BadAnswer' })
  // Metadata-only objects have the kind PartialObjectMetadata. A correct kind is not written again, because a store costs more than a check.
  if (object['kind'] !== kind.kind || object['apiVersion'] !== kind.apiVersion) Object.assign(object, kindOnly(kind))
  return event as WatchEvent
}
