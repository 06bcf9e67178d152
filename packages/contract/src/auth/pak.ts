// PAKs have the form `brokkr_BR??????_<long>`. Only the client that generates a PAK has its plain text; the broker stores the
// SHA-256 of the long part. Uses Web Crypto, which agents, CLI and browsers have.

export interface GeneratedPak {
  /** Shown once, never stored by the broker. */
  readonly pak: string
  readonly short: string
  readonly hash: string
}

/** Form of the PAKs that a broker generates; the settings `pak.*`. Agents generate PAKs in the default form. */
export interface PakForm {
  readonly prefix: string
  readonly short_token_prefix: string
  /** Characters of the short part, its prefix included. */
  readonly short_token_length: number
  /** Random bytes of the long part. */
  readonly long_token_length: number
}
export const defaultPakForm: PakForm = { prefix: 'brokkr', short_token_prefix: 'BR', short_token_length: 8, long_token_length: 24 }

const base58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const base58Class = '[1-9A-HJ-NP-Za-km-z]'

/** By default the long part has 24 random bytes (192 bits). The short part identifies the PAK in logs and lists. */
export async function generatePak(form: PakForm = defaultPakForm): Promise<GeneratedPak> {
  const short = `${form.short_token_prefix}${randomBase58(form.short_token_length - form.short_token_prefix.length)}`
  const long = toBase58(crypto.getRandomValues(new Uint8Array(form.long_token_length)))
  return { pak: `${form.prefix}_${short}_${long}`, short, hash: await hashLongToken(long) }
}

async function hashLongToken(long: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(long))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Source of a pattern without anchors; its groups are the short and the long part. Prefixes contain letters and digits only. */
export const pakPatternSource = ({ prefix, short_token_prefix, short_token_length }: PakForm): string =>
  `${prefix}_(${short_token_prefix}${base58Class}{${short_token_length - short_token_prefix.length}})_(${base58Class}{16,128})`

/** Hash of a complete PAK; null if the text is not a PAK. */
export async function hashPak(pak: string, form: PakForm = defaultPakForm): Promise<string | null> {
  const long = new RegExp(`^${pakPatternSource(form)}$`).exec(pak)?.[2]
  return long === undefined ? null : hashLongToken(long)
}

/** A join token, `jt_<short>_<long>`, has the form of a PAK, so that it is detected, hashed and redacted like one. */
export async function generateJoinToken(): Promise<{ readonly token: string; readonly short: string; readonly hash: string }> {
  const short = randomBase58(6)
  const long = toBase58(crypto.getRandomValues(new Uint8Array(24)))
  return { token: `jt_${short}_${long}`, short, hash: await hashLongToken(long) }
}

/** The token of a sign-in link, `one-time-<short>-<long>`. The short part finds the link, so that wrong tries count against it. */
export async function generateLoginToken(): Promise<{ readonly token: string; readonly short: string; readonly hash: string }> {
  const short = randomBase58(10)
  const long = toBase58(crypto.getRandomValues(new Uint8Array(24)))
  return { token: `one-time-${short}-${long}`, short, hash: await hashLongToken(long) }
}

/** Parts of a PAK that the broker may receive: its short part and the hash of its long part. */
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

/** Without bias: bytes beyond the last whole multiple of 58 are thrown away. */
function randomBase58(chars: number): string {
  let text = ''
  while (text.length < chars) {
    for (const byte of crypto.getRandomValues(new Uint8Array(16))) if (byte < 232 && text.length < chars) text += base58[byte % 58]
  }
  return text
}
