// The few ASN.1 DER forms that a certificate needs, written out as bytes.

/** One value: tag, length, content. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag]), lengthBytes(content.length), content])
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts)
export const setOf = (...parts: readonly Uint8Array[]): Buffer => der(0x31, ...parts)
export const octets = (content: Uint8Array): Buffer => der(0x04, content)
export const utf8 = (text: string): Buffer => der(0x0c, Buffer.from(text))
export const yes = (): Buffer => der(0x01, Buffer.from([0xff]))
/** `unusedBits` counts from the right end of the last byte. */
export const bits = (content: Uint8Array, unusedBits = 0): Buffer => der(0x03, Buffer.from([unusedBits]), content)

/** A positive whole number given as bytes: a leading zero keeps it from being read as negative. */
export function positiveInteger(bytes: Uint8Array): Buffer {
  return (bytes[0] ?? 0) >= 0x80 ? der(0x02, Buffer.from([0]), bytes) : der(0x02, bytes)
}

export function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

/** Two-digit years until 2049 and four-digit years after that: the rule for certificates. */
export function time(date: Date): Buffer {
  const digits = `${date.toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`
  const year = date.getUTCFullYear()
  return year >= 1950 && year < 2050 ? der(0x17, Buffer.from(digits.slice(2))) : der(0x18, Buffer.from(digits))
}

export function pem(label: string, content: Buffer): string {
  const lines = content.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}

function lengthBytes(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length])
  if (length < 0x100) return Buffer.from([0x81, length])
  if (length < 0x10000) return Buffer.from([0x82, length >> 8, length & 0xff])
  throw new RangeError(`a DER value of ${length} bytes is larger than any certificate needs`)
}

function base128(value: number): number[] {
  const groups = [value & 0x7f]
  for (let rest = value >> 7; rest > 0; rest >>= 7) groups.unshift((rest & 0x7f) | 0x80)
  return groups
}
