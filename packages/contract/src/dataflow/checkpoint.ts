// Stored state of a flow: `checkpoint.json` has the holder and the positions, `progress.json` the counters. One key per source type; keys
// of other types are kept.
import { z } from 'zod'
import { Counters } from './progress.ts'

export const checkpointKey = 'checkpoint.json'
export const progressKey = 'progress.json'
export const checkpointVersion = 1

export const CheckpointHolder = z.object({ pod: z.string(), uid: z.string(), epoch: z.number().int().min(0) })
export type CheckpointHolder = z.output<typeof CheckpointHolder>

/** Loose: each source type stores its state under its own key. */
export const Checkpoint = z.looseObject({
  v: z.literal(checkpointVersion),
  holder: CheckpointHolder.optional(),
  resetId: z.string().optional(),
  rewindId: z.string().optional(),
  /** State of sinks that save it before they write, by the key of their positions. */
  sinks: z.record(z.string(), z.record(z.string(), z.unknown())).optional(),
})
export type Checkpoint = z.output<typeof Checkpoint>

/** resetId: as in the checkpoint, in case the checkpoint is unreadable. */
export const SavedProgress = z.object({
  v: z.literal(checkpointVersion),
  counters: Counters.partial(),
  resetId: z.string().optional(),
})
export type SavedProgress = z.output<typeof SavedProgress>

/** Names of the two values of a polling source in older files. */
const polling = ['postgresql', 'clickhouse', 'trino'] as const

/** The stored text is not a checkpoint that this version reads. A retry does not help. */
export class UnreadableCheckpoint extends Error {
  override name = 'UnreadableCheckpoint'
}

/** Undefined if nothing is stored. Throws UnreadableCheckpoint for another format: a guess could lose a position. */
export function readCheckpoint(text: string | undefined): Checkpoint | undefined {
  if (text === undefined || text.trim() === '') return undefined
  const parsed = Checkpoint.safeParse(parseJson(text))
  if (!parsed.success) throw unreadable(z.prettifyError(parsed.error))
  return withPollingNames(parsed.data)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw unreadable('it is not JSON')
  }
}

const unreadable = (reason: string) =>
  new UnreadableCheckpoint(
    `${checkpointKey} is not a checkpoint of version ${checkpointVersion}: ${reason}\nreset the flow's checkpoint to read from the start, or correct the text`,
  )

function withPollingNames(checkpoint: Checkpoint): Checkpoint {
  const renamed: Record<string, unknown> = {}
  for (const type of polling) {
    const state = checkpoint[type]
    if (typeof state !== 'object' || state === null) continue
    const { lastReadTime, lastReadID, ...rest } = state as Record<string, unknown>
    if (lastReadTime === undefined && lastReadID === undefined) continue
    renamed[type] = {
      ...(lastReadTime === undefined ? {} : { lastReadChangeTime: lastReadTime }),
      ...(lastReadID === undefined ? {} : { lastReadOrderByValue: lastReadID }),
      ...rest,
    }
  }
  return { ...checkpoint, ...renamed }
}
