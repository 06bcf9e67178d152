// Processes that keep the CPUs of this machine busy, for tests of what a program does beside them. Each ends by itself after a while.
import { type ProgramProcess, startProgram } from '../program.ts'

const lifetimeMs = 60_000

/** Runs `during` beside `count` processes that use all the CPU time they get. */
export async function withBusyProcesses<T>(count: number, during: () => Promise<T>): Promise<T> {
  const main = new URL('./fixtures/busy-process.ts', import.meta.url).pathname
  const start = (n: number): Promise<ProgramProcess> => startProgram({ name: `busy-${n}`, main, env: { BUSY_MS: String(lifetimeMs) } })
  const processes = await Promise.all(Array.from({ length: count }, (_, n) => start(n)))
  try {
    return await during()
  } finally {
    await Promise.all(processes.map((process) => process.kill()))
  }
}
