// Cursors of the change feed. A cursor holds a database snapshot (xmin:xmax:in-flight), not a sequence number: a row that commits late is
// still new to every cursor whose snapshot could not see its transaction. Pure: parse, compare, sign.
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface DatabaseSnapshot {
  readonly xmin: bigint
  readonly xmax: bigint
  readonly inFlight: readonly bigint[]
}
export interface Cursor {
  readonly epoch: string
  /** Boot of the database server at which the cursor was issued. */
  readonly boot: string
  readonly snapshot: DatabaseSnapshot
}

/** A release that adds a version reads both and writes the older one; the next release writes the new one. */
const [versionWritten, versionsRead] = ['1', new Set(['1'])]
const snapshotPattern = /^(\d{1,20}):(\d{1,20}):((?:\d{1,20}(?:,\d{1,20})*)?)$/
const cursorBytesMax = 4096
/** With more in-flight entries the cursor is moved back to xmin, so that it fits a URL. That only repeats rows. */
const inFlightMax = 100

export function parseSnapshot(text: string): DatabaseSnapshot {
  const match = snapshotPattern.exec(text)
  if (match === null) throw new TypeError(`not a database snapshot: ${text.slice(0, 80)}`)
  const [, xmin = '', xmax = '', list = ''] = match
  return { xmin: BigInt(xmin), xmax: BigInt(xmax), inFlight: list === '' ? [] : list.split(',').map(BigInt) }
}

export const formatSnapshot = ({ xmin, xmax, inFlight }: DatabaseSnapshot): string => `${xmin}:${xmax}:${inFlight.join(',')}`

/** Whether `wide` sees every transaction that `narrow` sees. */
export function covers(wide: DatabaseSnapshot, narrow: DatabaseSnapshot): boolean {
  return wide.xmax >= narrow.xmax && wide.inFlight.every((xid) => xid >= narrow.xmax || narrow.inFlight.includes(xid))
}

/** Whether the snapshot cannot see transaction `xid`. */
export const isNewTo = ({ xmax, inFlight }: DatabaseSnapshot, xid: bigint): boolean => xid >= xmax || inFlight.includes(xid)

/** Parameters of the two index probes of the poll statement. */
export const toSnapshotProbes = ({ xmax, inFlight }: DatabaseSnapshot): { xmax: string; in_flight: string[] } => ({
  xmax: String(xmax),
  in_flight: inFlight.map(String),
})

/** base64url(payload) `.` base64url(first 16 bytes of its HMAC). Opaque to subscribers and equal for all of them. */
export function signCursor(key: Buffer, cursor: Cursor): string {
  const payload = Buffer.from(`${versionWritten}|${cursor.epoch}|${cursor.boot}|${formatSnapshot(shorten(cursor.snapshot))}`)
  return `${payload.toString('base64url')}.${signature(key, payload).toString('base64url')}`
}

/** Null if the text is not a cursor of this broker (form, length or signature). */
export function parseCursor(key: Buffer, text: string): Cursor | null {
  const [head = '', tail = '', ...rest] = text.split('.')
  if (text.length > cursorBytesMax || rest.length > 0) return null
  const payload = Buffer.from(head, 'base64url')
  const received = Buffer.from(tail, 'base64url')
  const expected = signature(key, payload)
  if (received.length !== expected.length || !timingSafeEqual(received, expected)) return null
  const [version = '', epoch, boot, snapshot, ...more] = payload.toString('utf8').split('|')
  if (!versionsRead.has(version) || epoch === undefined || boot === undefined || snapshot === undefined || more.length > 0) return null
  return { epoch, boot, snapshot: parseSnapshot(snapshot) }
}

const shorten = (snapshot: DatabaseSnapshot): DatabaseSnapshot =>
  snapshot.inFlight.length > inFlightMax ? { xmin: snapshot.xmin, xmax: snapshot.xmin, inFlight: [] } : snapshot

const signature = (key: Buffer, payload: Buffer): Buffer => createHmac('sha256', key).update(payload).digest().subarray(0, 16)

// Starts ("boots") of the database server, as recorded in the database. After a backup is restored, the database reports the same epoch
// and reuses transaction ids. But the server had to start for that, so the boot named by a cursor of the lost history is unknown, or
// ended before the cursor's database snapshot. Pure.

export interface ServerBoots {
  /** The current boot. */
  readonly boot: string
  /** Previous boots, each with the first transaction id after its end. */
  readonly ended: ReadonlyMap<string, bigint>
}

/** Whether the current epoch can have issued the cursor, judged by boots alone. */
export function isCursorOfEpoch({ boot, ended }: ServerBoots, cursor: Pick<Cursor, 'boot' | 'snapshot'>): boolean {
  if (cursor.boot === boot) return true
  const endedXid = ended.get(cursor.boot)
  return endedXid !== undefined && cursor.snapshot.xmax <= endedXid
}
