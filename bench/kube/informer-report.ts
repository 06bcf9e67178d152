// What a measured informer tells on its output, one JSON line per moment: in sync (time and CPU since it was started, time since its
// process was, memory after a collection), and the CPU that a number of events cost.
import { setTimeout as sleep } from 'node:timers/promises'

export interface InformerReport {
  /** Right before the informer is started, all that it needs being loaded. */
  started(): void
  event(): void
  synced(): void
  readonly finished: Promise<void>
}
const cpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const tell = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`)

export function reportInformer(events: number): InformerReport {
  const done = Promise.withResolvers<void>()
  let startedMs = 0
  let startedCpuMs = 0
  let eventCount = 0
  let syncedCpuMs = 0
  const settle = async (syncedMs: number) => {
    const cpu = cpuMs() - startedCpuMs
    // What is resident once it is idle; `gc` is there because both are started with --expose-gc.
    globalThis.gc?.()
    await sleep(200)
    syncedCpuMs = cpuMs()
    tell({ syncedMs: syncedMs - startedMs, processMs: syncedMs, cpuMs: cpu, residentMib: process.memoryUsage.rss() / 2 ** 20 })
  }
  return {
    finished: done.promise,
    started: () => {
      startedMs = performance.now()
      startedCpuMs = cpuMs()
    },
    event: () => {
      eventCount += 1
      if (eventCount !== events) return
      tell({ events, cpuMs: cpuMs() - syncedCpuMs })
      done.resolve()
    },
    synced: () => void settle(performance.now()),
  }
}
