// Key and name of a promotion. Both are functions of pipeline UID, environment, run and series, so that every process that decides the
// same promotion writes the same record, and the API server is the arbiter.
import { createHash } from 'node:crypto'

export interface PromotionIdentity {
  readonly pipelineUid: string
  readonly environment: string
  readonly run: number
  readonly series: number
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

/** First 20 characters of unpadded lower-case base32 of SHA-256. */
export function promotionKey({ pipelineUid, environment, run, series }: PromotionIdentity): string {
  const digest = createHash('sha256').update(`${pipelineUid}\n${environment}\n${run}\n${series}`).digest()
  return toBase32(digest.subarray(0, 13)).slice(0, 20)
}

export function promotionName(pipeline: string, identity: PromotionIdentity): string {
  const part = (text: string, max: number) =>
    text
      .slice(0, max)
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]/g, '-')
  const { environment, run, series } = identity
  return `${part(pipeline, 120)}-${part(environment, 63)}-${run}-${series}-${promotionKey(identity).slice(0, 8)}`
}

/** A label value: at most 63 characters, and alphanumeric at its end. */
export const toLabelValue = (text: string): string => text.slice(0, 63).replace(/[^A-Za-z0-9]+$/, '')

function toBase32(bytes: Uint8Array): string {
  let text = ''
  let value = 0
  let bits = 0
  for (const byte of bytes) {
    value = (value << 8) | byte
    for (bits += 8; bits >= 5; bits -= 5) text += alphabet[(value >>> (bits - 5)) & 31]
    value &= 0xff
  }
  return text
}
