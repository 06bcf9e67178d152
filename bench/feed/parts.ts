// Handles on the programs of this benchmark, and what their notes say together: how long each change took, and whether any is missing.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { PrivatePostgres } from '@brokkr/testing/servers/postgres.ts'
import type { Ours } from '../broker/servers.ts'
import { percentile } from '../figures.ts'
import type { ReadersOrder, Sighting } from './readers-main.ts'
import type { WriterOrder, WriterResult } from './writer-main.ts'

export interface Bench {
  readonly postgres: PrivatePostgres
  readonly ours: Ours
}
export const scaled = (count: number): number => Math.max(1, Math.round(count * Number(process.env['BENCH_SCALE'] ?? 1)))
export const channel = 'brokkr_feed_public'

const program = (name: string): ChildProcessByStdio<Writable, Readable, null> =>
  spawn(process.execPath, ['--max-semi-space-size=8', fileURLToPath(new URL(name, import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })

export interface Readers {
  readonly synced: { syncedMs: number; snapshots: number; puts: number }
  report(): Promise<{ sightings: Sighting[]; puts: number; answered: number; refused: number; cursors: Record<string, string> }>
  quit(): Promise<void>
}
export async function startReaders(order: ReadersOrder): Promise<Readers> {
  const child = program('readers-main.ts')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const next = async <T>() => JSON.parse((await lines.next()).value ?? '{}') as T
  child.stdin.write(`${JSON.stringify(order)}\n`)
  return {
    synced: await next(),
    report: () => {
      child.stdin.write('report\n')
      return next()
    },
    quit: async () => {
      child.stdin.write('quit\n')
      await new Promise((resolve) => child.on('close', resolve))
    },
  }
}

export interface Writer {
  write(order: WriterOrder): Promise<WriterResult>
  quit(): Promise<void>
}
export function startWriter(): Writer {
  const child = program('writer-main.ts')
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  return {
    write: async (order) => {
      child.stdin.write(`${JSON.stringify(order)}\n`)
      return JSON.parse((await lines.next()).value ?? '{}') as WriterResult
    },
    quit: async () => {
      child.stdin.end()
      await new Promise((resolve) => child.on('close', resolve))
    },
  }
}

export async function write(order: WriterOrder): Promise<WriterResult> {
  const writer = startWriter()
  const result = await writer.write(order)
  await writer.quit()
  return result
}

export interface Delays {
  readonly ms: number[]
  readonly missing: number
}
/** From the confirmed commit to the first sighting of that revision or a later one of its stack. */
export function delays(commits: WriterResult['commits'], sightings: readonly Sighting[]): Delays {
  const byStack = Map.groupBy(sightings, ([stackId]) => stackId)
  const ms: number[] = []
  let missing = 0
  for (const [stackId, rev, atNs] of commits) {
    const seen = (byStack.get(stackId) ?? []).filter(([, seenRev]) => seenRev >= rev).map(([, , seenNs]) => seenNs)
    if (seen.length === 0) missing += 1
    // The news may overtake the writer's own answer.
    else ms.push(Math.max(0, (Math.min(...seen) - atNs) / 1e6))
  }
  return { ms, missing }
}
export const shown = ({ ms, missing }: Delays): string =>
  `p50 ${percentile(ms, 0.5).toFixed(2)} ms · p99 ${percentile(ms, 0.99).toFixed(1)} ms · p99.9 ${percentile(ms, 0.999).toFixed(1)} ms · n ${ms.length} · missing ${missing}`
