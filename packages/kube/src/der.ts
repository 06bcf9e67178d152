// The few pieces of DER that a certificate is made of. Pure.

export type Der = Buffer

const tlv = (tag: number, ...parts: readonly Buffer[]): Der => {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag]), lengthOf(body.length), body])
}

function lengthOf(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.from([bytes])
  const digits: number[] = []
  for (let rest = bytes; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256)
  return Buffer.from([0x80 | digits.length, ...digits])
}

export const sequence = (...parts: readonly Der[]): Der => tlv(0x30, ...parts)
export const setOf = (...parts: readonly Der[]): Der => tlv(0x31, ...parts)
export const integer = (bytes: Buffer): Der => tlv(0x02, bytes)
export const boolean = (value: boolean): Der => tlv(0x01, Buffer.from([value ? 255 : 0]))
export const octets = (bytes: Buffer): Der => tlv(0x04, bytes)
export const utf8 = (text: string): Der => tlv(0x0c, Buffer.from(text))
/** `unused` bits at the end do not count. */
export const bits = (bytes: Buffer, unused = 0): Der => tlv(0x03, Buffer.from([unused]), bytes)
export const explicit = (number: number, inner: Der): Der => tlv(0xa0 + number, inner)
export const implicit = (number: number, bytes: Buffer): Der => tlv(0x80 + number, bytes)

export const generalizedTime = (ms: number): Der =>
  tlv(0x18, Buffer.from(`${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))

export function oid(text: string): Der {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  return tlv(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

function base128(value: number): number[] {
  const digits = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) digits.unshift((rest % 128) + 128)
  return digits
}
