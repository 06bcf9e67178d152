// AES-256-GCM for every *_sealed column: 0x01 ‖ 12-byte random nonce ‖ ciphertext ‖ tag. Table, column and row id are
// authenticated with it, so a value moved to another row does not open. The key ring seals with its first key and opens
// with any.
import { createCipheriv, createDecipheriv, createHash, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'

export interface Seal {
  seal(place: SealedPlace, text: string): Buffer
  open(place: SealedPlace, sealed: Buffer): string
  opens(place: SealedPlace, sealed: Buffer): boolean
  /** The same value under the first key; `kept` when it is under it already, `broken` when no key opens it. */
  reseal(place: SealedPlace, sealed: Buffer): Buffer | 'kept' | 'broken'
  /** First eight bytes of the SHA-256 of each key, hex, the sealing one first: tells keys apart without telling them. */
  readonly fingerprints: readonly [string, ...string[]]
}
export interface SealedPlace {
  readonly table: string
  readonly column: string
  readonly id: string
}

/** The value cannot be opened: changed, moved to another row, or sealed under a key that is not in the ring. */
export class UnsealFailed extends Error {
  override readonly name = 'UnsealFailed'
  readonly code = 'unseal_failed'
}

const version = 0x01
const nonceBytes = 12
const tagBytes = 16

export function createSeal(keys: readonly [Buffer, ...Buffer[]]): Seal {
  for (const key of keys) if (key.length !== 32) throw new Error('an encryption key has 32 bytes (64 hex digits)')
  // As bytes a key is imported with every call, which costs four times as much as the call (40 µs against 10 µs for 2 KB).
  const ring = keys.map((key) => createSecretKey(key))
  const [first] = ring as [KeyObject]
  const tryAll = (place: SealedPlace, sealed: Buffer): { key: KeyObject; text: string } | null => {
    for (const key of ring) {
      const text = openWith(key, place, sealed)
      if (text !== null) return { key, text }
    }
    return null
  }
  return {
    fingerprints: keys.map(fingerprintOf) as [string, ...string[]],
    seal: (place, text) => sealWith(first, place, text),
    open: (place, sealed) => {
      const opened = tryAll(place, sealed)
      if (opened !== null) return opened.text
      throw new UnsealFailed(`${place.table}.${place.column} of ${place.id} cannot be opened with any key of the ring`)
    },
    opens: (place, sealed) => tryAll(place, sealed) !== null,
    reseal: (place, sealed) => {
      const opened = tryAll(place, sealed)
      if (opened === null) return 'broken'
      return opened.key === first ? 'kept' : sealWith(first, place, opened.text)
    },
  }
}

const fingerprintOf = (key: Buffer): string => createHash('sha256').update(key).digest('hex').slice(0, 16)

const aad = (place: SealedPlace) => Buffer.from(`${place.table}\n${place.column}\n${place.id}`)

function sealWith(key: KeyObject, place: SealedPlace, text: string): Buffer {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(aad(place))
  return Buffer.concat([Buffer.of(version), nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
}

function openWith(key: KeyObject, place: SealedPlace, sealed: Buffer): string | null {
  if (sealed.length < 1 + nonceBytes + tagBytes || sealed[0] !== version) return null
  const nonce = sealed.subarray(1, 1 + nonceBytes)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce).setAAD(aad(place)).setAuthTag(sealed.subarray(-tagBytes))
  try {
    const text = decipher.update(sealed.subarray(1 + nonceBytes, -tagBytes))
    decipher.final() // Holds no text in this mode; it throws when the tag does not fit.
    return text.toString('utf8')
  } catch {
    return null // a wrong key and a changed byte look alike; the caller tries the next key
  }
}
