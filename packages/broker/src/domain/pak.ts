// Keys (PAKs): `brokkr_BR??????_<long>`. Only the SHA-256 of the long part is stored; the clear text leaves the broker once.
import { createHash, randomBytes, randomInt } from 'node:crypto'

export interface MadePak {
  /** Shown once, never stored. */
  readonly pak: string
  readonly short: string
  readonly hash: string
}

const base58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** 24 random bytes (192 bits) as the long part; the short part is for people and logs. */
export function makePak(): MadePak {
  const short = `BR${Array.from({ length: 6 }, () => base58[randomInt(base58.length)]).join('')}`
  const long = toBase58(randomBytes(24))
  return { pak: `brokkr_${short}_${long}`, short, hash: hashLongToken(long) }
}

export const hashLongToken = (long: string): string => createHash('sha256').update(long).digest('hex')

/** Leading zero bytes become leading ones, as everywhere base58 is used. */
export function toBase58(bytes: Buffer): string {
  let value = BigInt(`0x${bytes.toString('hex')}`)
  let text = ''
  while (value > 0n) {
    text = base58[Number(value % 58n)] + text
    value /= 58n
  }
  const zeros = bytes.findIndex((byte) => byte !== 0)
  return '1'.repeat(zeros === -1 ? bytes.length : zeros) + text
}
