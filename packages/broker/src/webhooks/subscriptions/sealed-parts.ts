// Sealed columns of a subscription, opened for one request. A part that cannot be opened is counted by field and reported by name only.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { type EncryptionContext, type Seal, UnsealFailed } from '../../seal.ts'

const sealedColumns = {
  url: 'url_sealed',
  auth_header: 'auth_sealed',
  secret: 'secret_sealed',
  old_secret: 'old_secret_sealed',
} as const
export type SealedField = keyof typeof sealedColumns

export const toWebhookContext = (field: SealedField, id: string): EncryptionContext => ({
  table: 'webhook_subscriptions',
  column: sealedColumns[field],
  id,
})

export interface SealedParts {
  readonly url_sealed: Buffer
  readonly auth_sealed: Buffer | null
  readonly secret_sealed: Buffer
  /** null if there is none or it has expired. */
  readonly old_secret_sealed: Buffer | null
}
export interface OpenedParts {
  readonly url: string
  readonly authHeader: string | null
  readonly secrets: readonly string[]
}
/** Label of the failure metric: where a part was opened. */
export type OpeningPath = 'delivery' | 'agent' | 'test'

export interface PartsOpener {
  /** Returns the name of the field that cannot be opened instead of the parts. */
  open(id: string, parts: SealedParts, path: OpeningPath): OpenedParts | { readonly broken: SealedField }
}

export function createPartsOpener({ seal, metrics }: { seal: Seal; metrics: Metrics }): PartsOpener {
  const failures = metrics.counter('brokkr_webhook_decrypt_failures_total', 'Number of sealed webhook parts that no key opened', [
    'field',
    'path',
  ])
  return {
    open: (id, parts, path) => {
      let field: SealedField = 'url'
      const opened = (name: SealedField, sealed: Buffer): string => seal.open(toWebhookContext((field = name), id), sealed)
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
