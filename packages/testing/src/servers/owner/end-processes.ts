// Ends recorded processes and waits until they are gone: QUIT, which lets PostgreSQL take its children along, then KILL.
import { setTimeout as sleep } from 'node:timers/promises'
import { isSameProcess, killRecorded, type RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'

export async function endProcesses(
  recorded: readonly RecordedProcess[],
  options: { graceMs?: number; limitMs?: number } = {},
): Promise<void> {
  for (const each of recorded) killRecorded(each, 'SIGQUIT')
  const running = await waitForExit(recorded, options.graceMs ?? 5_000)
  for (const each of running) killRecorded(each, 'SIGKILL')
  const stuck = await waitForExit(running, options.limitMs ?? 30_000)
  if (stuck.length > 0) throw new Error(`processes ${stuck.map(({ pid }) => pid).join(', ')} did not end after KILL`)
}

async function waitForExit(recorded: readonly RecordedProcess[], limitMs: number): Promise<RecordedProcess[]> {
  const endMs = performance.now() + limitMs
  for (;;) {
    const running = recorded.filter(({ pid, startTime }) => isSameProcess(pid, startTime))
    if (running.length === 0 || performance.now() > endMs) return running
    await sleep(20)
  }
}
