// Events out of the lines of a watch. Lines that came together are decoded together: the parser is called once for all of them. Pure.
import { errorOfStatus } from './answer-error.ts'
import { KubeError } from './api-error.ts'
import { isFields, textAt } from './fields.ts'
import { decodeJson } from './json.ts'
import type { WatchEvent } from './kube.ts'
import type { Fields, Kind } from './object.ts'

/** Hands the events to `take`, in one portion unless one of them is bad: then what came before it is handed over and the bad one thrown. */
export function takeEvents(what: string, lines: readonly string[], kind: Kind, take: (events: WatchEvent[]) => void): void {
  const values = lines.length > 1 ? decodeTogether(lines) : undefined
  const events: WatchEvent[] = []
  try {
    for (let at = 0; at < lines.length; at++) events.push(eventOf(what, values ? values[at]?.[0] : decodeLine(what, lines[at] ?? ''), kind))
  } finally {
    if (events.length > 0) take(events)
  }
}

/** Every line in brackets of its own, so that two broken halves do not make a whole; undefined unless each of them is one value. */
function decodeTogether(lines: readonly string[]): unknown[][] | undefined {
  try {
    const values = decodeJson(`[[${lines.join('],[')}]]`) as unknown[][]
    return values.length === lines.length && values.every((one) => one.length === 1) ? values : undefined
  } catch {
    return undefined // line by line, to find out which
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

function eventOf(what: string, event: unknown, kind: Kind): WatchEvent {
  const { type, object } = isFields(event) ? event : ({} as Fields)
  if (type === 'ERROR') throw errorOfStatus(what, object)
  if (!TYPES.has(type) || !isFields(object) || !isFields(object['metadata']))
    throw new KubeError(`${what}: ${JSON.stringify(textAt(event, 'type') ?? null)} is not an event we know`, { reason: 'BadAnswer' })
  object['apiVersion'] = kind.apiVersion
  object['kind'] = kind.kind
  return event as WatchEvent
}
