// The 32-bit Murmur3 hash with seed 0, by which Iceberg chooses buckets. Pure.

const [c1, c2] = [0xcc9e2d51, 0x1b873593]
const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by))
const mixed = (block: number): number => Math.imul(rotate(Math.imul(block, c1), 15), c2)

/** Signed, as the specification has it. */
export function hashBytes(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const blockBytes = bytes.length & ~3
  let hash = 0
  for (let at = 0; at < blockBytes; at += 4) hash = (Math.imul(rotate(hash ^ mixed(view.getInt32(at, true)), 13), 5) + 0xe6546b64) | 0
  let tail = 0
  for (let at = bytes.length - 1; at >= blockBytes; at -= 1) tail = (tail << 8) | bytes[at]!
  if (bytes.length > blockBytes) hash ^= mixed(tail)
  hash ^= bytes.length
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
