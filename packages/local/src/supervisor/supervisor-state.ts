// State file of a supervisor: its programs by pid and start time, so that the next supervisor can stop programs of a killed one.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSameProcess, killRecorded, type RecordedProcess } from './process-table.ts'
import { writeAtomic } from './write-atomic.ts'

export type RecordedProgram = RecordedProcess & {
  name: string
  ports: Record<string, number>
  log: string
  /** Signal for an orderly stop. PostgreSQL needs SIGINT: after SIGTERM it waits for its clients. */
  stopSignal: NodeJS.Signals
}

/** In start order; empty without a readable state file. */
export function readSupervisorState(dir: string): RecordedProgram[] {
  try {
    const state = JSON.parse(readFileSync(stateFile(dir), 'utf8')) as { programs?: unknown }
    return Array.isArray(state.programs) ? state.programs.filter(isRecordedProgram) : []
  } catch {
    return []
  }
}

export function writeSupervisorState(dir: string, programs: readonly RecordedProgram[]): void {
  writeAtomic(stateFile(dir), `${JSON.stringify({ programs }, null, 2)}\n`)
}

/** Sends stopSignal, then SIGKILL. Returns false if it was not running. */
export async function stopRecorded(program: RecordedProgram, graceMs = 10_000): Promise<boolean> {
  if (!killRecorded(program, program.stopSignal)) return false
  if (await waitUntilExited(program, graceMs)) return true
  killRecorded(program, 'SIGKILL')
  if (await waitUntilExited(program, 30_000)) return true
  throw new Error(`${program.name} (pid ${program.pid}) did not end 30 s after KILL; its log is ${program.log}`)
}

async function waitUntilExited({ pid, startTime }: RecordedProcess, limitMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + limitMs
  while (isSameProcess(pid, startTime) && performance.now() < deadlineMs) await sleep(20)
  return !isSameProcess(pid, startTime)
}

function isRecordedProgram(value: unknown): value is RecordedProgram {
  const program = value as Partial<RecordedProgram> | null
  return (
    typeof program?.pid === 'number' &&
    typeof program.startTime === 'string' &&
    typeof program.name === 'string' &&
    typeof program.stopSignal === 'string'
  )
}

function stateFile(dir: string): string {
  return join(dir, 'state.json')
}
