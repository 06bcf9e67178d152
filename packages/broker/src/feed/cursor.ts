// Cursors are database snapshots (xmin:xmax:in-flight), never sequence numbers: a row that commits late is still new to
// every cursor that could not see it. Pure: parse, compare, sign.
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface Snapshot {
  readonly xmin: bigint
  readonly xmax: bigint
  readonly inFlight: readonly bigint[]
}
export interface Cursor {
  readonly epoch: string
  /** Of the database server that issued it. */
  readonly boot: string
  readonly snapshot: Snapshot
}

/** The release that brings a new version reads both and writes the older one; the next one writes the new. */
const [versionWritten, versionsRead] = ['1', new Set(['1'])]
const snapshotText = /^(\d{1,20}):(\d{1,20}):((?:\d{1,20}(?:,\d{1,20})*)?)$/
const cursorBytesMax = 4096
/** Beyond this many entries the wire cursor is shortened, so that it fits a URL: downwards is safe, it only repeats. */
const inFlightMax = 100

export function parseSnapshot(text: string): Snapshot {
  const match = snapshotText.exec(text)
  if (match === null) throw new TypeError(`not a snapshot: ${text.slice(0, 80)}`)
  const [, xmin = '', xmax = '', list = ''] = match
  return { xmin: BigInt(xmin), xmax: BigInt(xmax), inFlight: list === '' ? [] : list.split(',').map(BigInt) }
}

export const printSnapshot = ({ xmin, xmax, inFlight }: Snapshot): string => `${xmin}:${xmax}:${inFlight.join(',')}`

/** `wide` has seen everything that `narrow` had. */
export function covers(wide: Snapshot, narrow: Snapshot): boolean {
  return wide.xmax >= narrow.xmax && wide.inFlight.every((xid) => xid >= narrow.xmax || narrow.inFlight.includes(xid))
}

/** The snapshot could not see what transaction `xid` wrote. */
export const isNewTo = ({ xmax, inFlight }: Snapshot, xid: bigint): boolean => xid >= xmax || inFlight.includes(xid)

/** A cursor as the two probes of the feed take it. */
export const probesOf = ({ xmax, inFlight }: Snapshot): { xmax: string; in_flight: string[] } => ({
  xmax: String(xmax),
  in_flight: inFlight.map(String),
})

/** base64url(payload) `.` base64url(first 16 bytes of its HMAC); opaque to followers and the same for all of them. */
export function printCursor(key: Buffer, cursor: Cursor): string {
  const payload = Buffer.from(`${versionWritten}|${cursor.epoch}|${cursor.boot}|${printSnapshot(shortened(cursor.snapshot))}`)
  return `${payload.toString('base64url')}.${signature(key, payload).toString('base64url')}`
}

/** null: not a cursor of ours (form, length or signature). */
export function readCursor(key: Buffer, text: string): Cursor | null {
  const [head = '', tail = '', ...rest] = text.split('.')
  if (text.length > cursorBytesMax || rest.length > 0) return null
  const payload = Buffer.from(head, 'base64url')
  const given = Buffer.from(tail, 'base64url')
  const expected = signature(key, payload)
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null
  const [version = '', epoch, boot, snapshot, ...more] = payload.toString('utf8').split('|')
  if (!versionsRead.has(version) || epoch === undefined || boot === undefined || snapshot === undefined || more.length > 0) return null
  return { epoch, boot, snapshot: parseSnapshot(snapshot) }
}

const shortened = (snapshot: Snapshot): Snapshot =>
  snapshot.inFlight.length > inFlightMax ? { xmin: snapshot.xmin, xmax: snapshot.xmin, inFlight: [] } : snapshot

const signature = (key: Buffer, payload: Buffer): Buffer => createHmac('sha256', key).update(payload).digest().subarray(0, 16)
