// Time-ordered ids (RFC 9562, version 7). Consecutive ids are adjacent in an index, which keeps inserts cheap. Ids of one process ascend, so
// rows that one statement writes sort in their order: a counter takes the 12 bits behind the millisecond.
import { randomBytes } from 'node:crypto'

const counterMax = 0xfff
let lastMs = 0
let counter = 0

export function uuid7(): string {
  const nowMs = Date.now()
  if (nowMs > lastMs) {
    lastMs = nowMs
    counter = 0
  } else if (counter === counterMax) {
    // More than 4,096 ids in a millisecond, or the clock went back: the id is ahead of the clock.
    lastMs += 1
    counter = 0
  } else counter += 1
  const bytes = randomBytes(16)
  bytes.writeUIntBE(lastMs, 0, 6)
  bytes.writeUInt16BE(0x7000 | counter, 6)
  bytes[8] = 0x80 | (bytes[8]! & 0x3f)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
