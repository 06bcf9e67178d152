// What a supervisor wrote down about its programs, so that a later process can stop what a killed one left: by pid and start time,
// never by name.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSameProcess, killRecorded, type RecordedProcess } from './process-table.ts'
import { writeAtomic } from './write-atomic.ts'

export type RecordedProgram = RecordedProcess & {
  name: string
  ports: Record<string, number>
  log: string
  /** What asks it to end; PostgreSQL wants INT, since TERM makes it wait for its clients. */
  stopSignal: NodeJS.Signals
}

/** In the order in which they were started; empty when there is no state or it cannot be read. */
export function readState(dir: string): RecordedProgram[] {
  try {
    const state = JSON.parse(readFileSync(stateFile(dir), 'utf8')) as { programs?: unknown }
    return Array.isArray(state.programs) ? state.programs.filter(isRecordedProgram) : []
  } catch {
    return []
  }
}

export function writeState(dir: string, programs: readonly RecordedProgram[]): void {
  writeAtomic(stateFile(dir), `${JSON.stringify({ programs }, null, 2)}\n`)
}

/** Asks it to end, then insists; false when it was gone already. */
export async function stopRecorded(program: RecordedProgram, graceMs = 10_000): Promise<boolean> {
  if (!killRecorded(program, program.stopSignal)) return false
  if (await isGone(program, graceMs)) return true
  killRecorded(program, 'SIGKILL')
  if (await isGone(program, 30_000)) return true
  throw new Error(`${program.name} (pid ${program.pid}) did not end 30 s after KILL; its log is ${program.log}`)
}

async function isGone({ pid, startTime }: RecordedProcess, limitMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + limitMs
  while (isSameProcess(pid, startTime) && performance.now() < deadlineMs) await sleep(20)
  return !isSameProcess(pid, startTime)
}

function isRecordedProgram(value: unknown): value is RecordedProgram {
  const seen = value as Partial<RecordedProgram> | null
  return (
    typeof seen?.pid === 'number' &&
    typeof seen.startTime === 'string' &&
    typeof seen.name === 'string' &&
    typeof seen.stopSignal === 'string'
  )
}

function stateFile(dir: string): string {
  return join(dir, 'state.json')
}
