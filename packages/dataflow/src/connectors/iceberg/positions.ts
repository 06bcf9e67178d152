// Positions of a flow's partitions in a property of the table, moved in the commit of the batch: a batch is written exactly if its
// position is. The property outlives snapshots that are expired, and catalogs that show only the last one. The epoch fences: a later owner
// makes an earlier writer's commit fail. Pure.
import { createHash } from 'node:crypto'
import type { Partition, Position, Positions } from '../connector.ts'
import { configError } from './errors.ts'

interface Owned {
  readonly epoch: number
  readonly position: Position | null
}
export interface Marker {
  /** By origin and partition of the source. */
  readonly owned: Readonly<Record<string, Owned>>
  /** Last batches, the newest first: tell whether a commit without an answer happened. */
  readonly batches: readonly string[]
}

/** More than the processors of one flow have commits without an answer. */
const batchesMax = 20

/** Characters of other names are not allowed everywhere. */
export const markerName = (key: string): string => `brokkr.positions.${createHash('sha256').update(key).digest('hex').slice(0, 16)}`

export function readMarker(properties: Readonly<Record<string, string>>, name: string): Marker {
  const text = properties[name]
  if (text === undefined) return { owned: {}, batches: [] }
  try {
    const { owned = {}, batches = [] } = JSON.parse(text) as Partial<Marker>
    return { owned, batches }
  } catch {
    throw configError(`the table property ${name} was changed and is not readable: restore it, or remove it to begin without positions`)
  }
}

export const printMarker = (key: string, marker: Marker): string => JSON.stringify({ flow: key, ...marker })

export const withBatch = (marker: Marker, batchId: string): Marker => ({
  ...marker,
  batches: [batchId, ...marker.batches].slice(0, batchesMax),
})

export function withTakenOver(marker: Marker, sources: readonly string[], epoch: number): Marker {
  const owned = { ...marker.owned }
  for (const source of sources) {
    const before = owned[source]
    owned[source] = { epoch: Math.max((before?.epoch ?? 0) + 1, epoch), position: before?.position ?? null }
  }
  return { ...marker, owned }
}

export function withMoved(marker: Marker, moves: readonly Move[]): Marker {
  const owned = { ...marker.owned }
  for (const { source, epoch, position } of moves) owned[source] = { epoch, position }
  return { ...marker, owned }
}

export const withForgotten = (marker: Marker): Marker => ({
  ...marker,
  owned: Object.fromEntries(Object.entries(marker.owned).map(([source, { epoch }]) => [source, { epoch, position: null }])),
})

export interface Move {
  readonly source: string
  readonly epoch: number
  /** Position that this process wrote or read last; null for none. */
  readonly expected: Position | null
  readonly position: Position
}

/** committed: the table has these positions already · fenced: another processor took over or wrote in between. */
export function judgeMoves(
  marker: Marker,
  moves: readonly Move[],
  compare: (left: Position, right: Position) => number,
): 'open' | 'committed' | 'fenced' {
  const states = moves.map(({ source, epoch, expected, position }) => {
    const now = marker.owned[source]
    if (now === undefined) return expected === null ? 'open' : 'fenced'
    if (now.epoch > epoch) return 'fenced'
    if (JSON.stringify(now.position) === JSON.stringify(expected)) return 'open'
    return now.epoch === epoch && now.position !== null && compare(now.position, position) >= 0 ? 'committed' : 'fenced'
  })
  if (states.every((state) => state === 'open')) return 'open'
  // A commit moves all positions of its batch or none.
  return states.every((state) => state === 'committed') ? 'committed' : 'fenced'
}

export const sourceName = (origin: string, partition: Partition): string => `${origin}/${partition}`

/** Stored positions of the source; Kafka's partitions are numbers, others are names. */
export function listPositions({ owned }: Marker, origin: string, sources: readonly string[]): Map<Partition, Position> {
  const found = new Map<Partition, Position>()
  for (const source of sources) {
    const name = source.slice(origin.length + 1)
    const position = owned[source]?.position ?? null
    if (position !== null) found.set(/^[0-9]+$/.test(name) ? Number(name) : name, position)
  }
  return found
}

/** For the snapshot's summary. */
export const positionsText = (origin: string, positions: Positions): string =>
  JSON.stringify(Object.fromEntries([...positions].map(([partition, position]) => [sourceName(origin, partition), position])))
