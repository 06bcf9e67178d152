// Scopes of watches, and the name of the NOTIFY channel. Pure.
import { hash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'

// Scopes of a watch: `agent:<id>`, `stack:<id>`, `generator:<id>`, `work_order:<id>`, and `kind:<object kind>` for all resources of a kind.

export interface WatchScope {
  readonly kind: 'agent' | 'stack' | 'generator' | 'work_order' | 'kind'
  /** The name, for scopes of kind `kind`. */
  readonly id: string
}

const byId = /^(agent|stack|generator|work_order):([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$/i
const byKind = /^(kind):([a-z_]{1,64})$/

/** null if the text is not a scope. */
export function parseWatchScope(text: string): WatchScope | null {
  const [, kind, id = ''] = byId.exec(text) ?? byKind.exec(text) ?? []
  return kind === undefined ? null : { kind: kind as WatchScope['kind'], id: id.toLowerCase() }
}

export function parseWatchScopes(texts: readonly string[]): WatchScope[] {
  return texts.map((text) => {
    const scope = parseWatchScope(text)
    if (scope === null)
      throw new ApiError(
        'invalid_query_parameter',
        'scope must be agent:, stack:, generator: or work_order: followed by an id, or kind:<object kind>',
      )
    return scope
  })
}

// NOTIFY channel of a schema, so that only brokers of one schema wake each other. Channel names are limited to 63 bytes, as schema names
// are; a long schema name is hashed.

const [prefix, bytesMax] = ['brokkr_feed_', 63]

export const toNotifyChannel = (schema: string): string =>
  prefix.length + schema.length <= bytesMax ? `${prefix}${schema}` : `${prefix}${hash('sha256', schema).slice(0, 32)}`
