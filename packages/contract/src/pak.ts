// Keys (PAKs): `brokkr_BR??????_<long>`. Whoever makes one keeps the clear text; the broker stores only the SHA-256 of its
// long part. Web crypto, so that agents, the command line and a browser make them alike.

export interface MadePak {
  /** Shown once, never stored by the broker. */
  readonly pak: string
  readonly short: string
  readonly hash: string
}

const base58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** 24 random bytes (192 bits) as the long part; the short part is for people and logs. */
export async function makePak(): Promise<MadePak> {
  const short = `BR${shortTail()}`
  const long = toBase58(crypto.getRandomValues(new Uint8Array(24)))
  return { pak: `brokkr_${short}_${long}`, short, hash: await hashLongToken(long) }
}

export async function hashLongToken(long: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(long))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The hash of a whole key, or null when the text is no key. */
export async function hashPak(pak: string): Promise<string | null> {
  const long = /^brokkr_BR[1-9A-HJ-NP-Za-km-z]{6}_([1-9A-HJ-NP-Za-km-z]{16,128})$/.exec(pak)?.[1]
  return long === undefined ? null : hashLongToken(long)
}

/** A join token, `jt_<short>_<long>`: of the form of a key, so that it is known, hashed and hidden like one. */
export async function makeJoinToken(): Promise<{ readonly token: string; readonly short: string; readonly hash: string }> {
  const short = shortTail()
  const long = toBase58(crypto.getRandomValues(new Uint8Array(24)))
  return { token: `jt_${short}_${long}`, short, hash: await hashLongToken(long) }
}

/** What whoever makes a key may tell the broker of it: its short part, and the hash of its long part. */
export const shortTokenPattern = /^BR[1-9A-HJ-NP-Za-km-z]{6}$/
export const pakHashPattern = /^[0-9a-f]{64}$/

/** Leading zero bytes become leading ones, as everywhere base58 is used. */
export function toBase58(bytes: Uint8Array): string {
  let value = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  let text = ''
  for (; value > 0n; value /= 58n) text = base58[Number(value % 58n)] + text
  const zeros = bytes.findIndex((byte) => byte !== 0)
  return '1'.repeat(zeros === -1 ? bytes.length : zeros) + text
}

/** Six characters without bias: bytes beyond the last whole multiple of 58 are thrown away. */
function shortTail(): string {
  let text = ''
  while (text.length < 6) {
    for (const byte of crypto.getRandomValues(new Uint8Array(16))) if (byte < 232 && text.length < 6) text += base58[byte % 58]
  }
  return text
}
