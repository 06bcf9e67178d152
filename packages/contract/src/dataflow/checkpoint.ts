// What a flow keeps between two processes: `checkpoint.json` says who reads and how far it got, `progress.json` holds the counters.
// One key per source type; keys of others are kept as they are.
import { z } from 'zod'
import { Counters } from './progress.ts'

export const checkpointKey = 'checkpoint.json'
export const progressKey = 'progress.json'
export const checkpointVersion = 1

export const CheckpointHolder = z.object({ pod: z.string(), uid: z.string(), epoch: z.number().int().min(0) })
export type CheckpointHolder = z.output<typeof CheckpointHolder>

/** Loose: the state of every source type stands beside these under its own key. */
export const Checkpoint = z.looseObject({
  v: z.literal(checkpointVersion),
  holder: CheckpointHolder.optional(),
  resetId: z.string().optional(),
  rewindId: z.string().optional(),
})
export type Checkpoint = z.output<typeof Checkpoint>

export const SavedProgress = z.object({ v: z.literal(checkpointVersion), counters: Counters.partial() })
export type SavedProgress = z.output<typeof SavedProgress>

/** Names that older files use for the two values of a polling source. */
const polling = ['postgresql', 'clickhouse', 'trino'] as const

/** Undefined when there is nothing yet. Throws with the reason when the text is none of ours: guessing would lose a position. */
export function readCheckpoint(text: string | undefined): Checkpoint | undefined {
  if (text === undefined || text.trim() === '') return undefined
  const parsed = Checkpoint.safeParse(JSON.parse(text))
  if (!parsed.success)
    throw new Error(`${checkpointKey} is not a checkpoint of version ${checkpointVersion}: ${z.prettifyError(parsed.error)}`)
  return withPollingNames(parsed.data)
}

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
