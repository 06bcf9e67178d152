// What of a subscription is sealed, and opening it for one request. What cannot be opened is counted by field, and told without its text.
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { type Seal, type SealedPlace, UnsealFailed } from '../seal.ts'

export const sealedColumns = {
  url: 'url_sealed',
  auth_header: 'auth_sealed',
  secret: 'secret_sealed',
  old_secret: 'old_secret_sealed',
} as const
export type SealedField = keyof typeof sealedColumns

export const placeOf = (field: SealedField, id: string): SealedPlace => ({
  table: 'webhook_subscriptions',
  column: sealedColumns[field],
  id,
})

export interface SealedParts {
  readonly url_sealed: Buffer
  readonly auth_sealed: Buffer | null
  readonly secret_sealed: Buffer
  /** Null: there is none, or it has ended. */
  readonly old_secret_sealed: Buffer | null
}
export interface OpenedParts {
  readonly url: string
  readonly authHeader: string | null
  readonly secrets: readonly string[]
}
/** Where something was to be opened: a label of the figure. */
export type OpeningPath = 'delivery' | 'agent' | 'test'

export interface PartsOpener {
  /** The name of the field that does not open, instead of what it holds. */
  open(id: string, parts: SealedParts, path: OpeningPath): OpenedParts | { readonly broken: SealedField }
}

export function createPartsOpener({ seal, metrics }: { seal: Seal; metrics: Metrics }): PartsOpener {
  const failures = metrics.counter('brokkr_webhook_decrypt_failures_total', 'Sealed parts of webhooks that no key opens', ['field', 'path'])
  return {
    open: (id, parts, path) => {
      let field: SealedField = 'url'
      const opened = (name: SealedField, sealed: Buffer): string => seal.open(placeOf((field = name), id), sealed)
      try {
        return {
          url: opened('url', parts.url_sealed),
          authHeader: parts.auth_sealed === null ? null : opened('auth_header', parts.auth_sealed),
          secrets: [
            opened('secret', parts.secret_sealed),
            ...(parts.old_secret_sealed === null ? [] : [opened('old_secret', parts.old_secret_sealed)]),
          ],
        }
      } catch (error) {
        if (!(error instanceof UnsealFailed)) throw error
        failures.inc({ field, path })
        return { broken: field }
      }
    },
  }
}
