// Runs the tasks of this process. A task that may run in one process at a time needs its lease, which is renewed during the run; losing it
// aborts the run. The result of each run is stored for operators.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import * as taskLeases from './store.ts'
import type { Task } from './task.ts'

export interface RunnerDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Name of this process, shown to operators as lease owner. */
  readonly owner: string
  /** Whether the database is unavailable. The change feed logs that already, so tasks do not log it at every tick. */
  readonly isAway: (error: unknown) => boolean
}
export interface RunningTasks {
  /** Runs a task now; ignores unknown names. */
  wake(name: string): void
  stop(): Promise<void>
  readonly tasks: readonly Task[]
}

const leaseSeconds = 60
/** An interval can be longer than the life of a process, so the database decides whether a run is due. */
const tickMsMax = 60_000
/** Timers have a jitter of 10 %, so a run is due after 80 % of its interval. */
const dueShare = 0.8

export function startTasks(deps: RunnerDeps, tasks: readonly Task[]): RunningTasks {
  const loops = new Map<string, RunningLoop>(
    tasks.map((task) => {
      const everyMs = () => (task.isEverywhere === true ? task.everyMs() : Math.min(task.everyMs(), tickMsMax))
      const run = (signal: AbortSignal) =>
        runUnlessDatabaseAway(deps, task.isEverywhere === true ? runEverywhere : runLeased, { task, signal })
      return [task.name, startLoop({ clock: deps.clock, log: deps.log }, { name: task.name, everyMs, run })]
    }),
  )
  return {
    tasks,
    wake: (name) => loops.get(name)?.wake(),
    stop: async () => {
      await Promise.all([...loops.values()].map((loop) => loop.stop()))
    },
  }
}

type Counts = Record<string, number>
type Run = (deps: RunnerDeps, task: Task, signal: AbortSignal) => Promise<Counts | void>

async function runUnlessDatabaseAway(
  deps: RunnerDeps,
  run: Run,
  { task, signal }: { task: Task; signal: AbortSignal },
): Promise<Counts | void> {
  try {
    return await run(deps, task, signal)
  } catch (error) {
    if (!deps.isAway(error)) throw error
    deps.log.debug('task waits for the database', { task: task.name, error: error as Error })
  }
}

async function runEverywhere(deps: RunnerDeps, task: Task, signal: AbortSignal): Promise<Counts> {
  const { record, outcome } = await runOnce(deps, task, signal)
  if (outcome.is !== 'stopped') await taskLeases.note(deps.sql, record)
  return requireCounts(outcome)
}

async function runLeased(deps: RunnerDeps, task: Task, stopping: AbortSignal): Promise<Counts | void> {
  const leaseKey = { name: task.name, owner: deps.owner }
  const due_after_seconds = (task.everyMs() / 1000) * dueShare
  if ((await taskLeases.take(deps.sql, { ...leaseKey, lease_seconds: leaseSeconds, due_after_seconds })) === null) return
  const lease = startLeaseRenewal(deps, leaseKey)
  try {
    const { record, outcome } = await runOnce(deps, task, AbortSignal.any([stopping, lease.lost]))
    if (outcome.is === 'stopped') await taskLeases.release(deps.sql, leaseKey)
    else await taskLeases.finish(deps.sql, record)
    return requireCounts(outcome)
  } finally {
    lease.stopRenewing()
  }
}

type RunOutcome =
  | { readonly is: 'ok'; readonly counts: Counts }
  | { readonly is: 'failed'; readonly error: Error }
  | { readonly is: 'stopped' }

async function runOnce(deps: RunnerDeps, task: Task, signal: AbortSignal): Promise<{ record: taskLeases.RunRecord; outcome: RunOutcome }> {
  const startedMs = deps.clock.monotonicMs()
  const outcome = await executeTask(task, signal)
  const ran_seconds = (deps.clock.monotonicMs() - startedMs) / 1000
  const { metrics } = deps
  metrics
    .counter('brokkr_task_runs_total', 'Number of runs of a background task by result', ['task', 'result'])
    .inc({ task: task.name, result: outcome.is })
  metrics
    .histogram('brokkr_task_duration_seconds', 'Duration of runs of a background task', ['task'])
    .observe({ task: task.name }, ran_seconds)
  const result = outcome.is === 'ok' ? JSON.stringify(outcome.counts) : null
  const error = outcome.is === 'failed' ? outcome.error.message.slice(0, 500) : null
  return { record: { name: task.name, owner: deps.owner, ran_seconds, result, error }, outcome }
}

async function executeTask(task: Task, signal: AbortSignal): Promise<RunOutcome> {
  try {
    return { is: 'ok', counts: await task.run(signal) }
  } catch (error) {
    return signal.aborted ? { is: 'stopped' } : { is: 'failed', error: error instanceof Error ? error : new Error(String(error)) }
  }
}

/** Rethrows a failure to the loop, which logs it. */
function requireCounts(outcome: RunOutcome): Counts {
  if (outcome.is === 'failed') throw outcome.error
  return outcome.is === 'ok' ? outcome.counts : {}
}

/** Renews the lease after a third of its time, so that a lost lease aborts the run before another process may start. */
function startLeaseRenewal(deps: RunnerDeps, leaseKey: { name: string; owner: string }): { lost: AbortSignal; stopRenewing(): void } {
  const lost = new AbortController()
  const renew = async () => {
    const renewedRows = await taskLeases.renew(deps.sql, { ...leaseKey, lease_seconds: leaseSeconds }).catch(() => 0)
    if (renewedRows === 0) lost.abort(new Error(`the lease of task ${leaseKey.name} is lost`))
    else timer = deps.clock.setTimer((leaseSeconds * 1000) / 3, () => void renew())
  }
  let timer = deps.clock.setTimer((leaseSeconds * 1000) / 3, () => void renew())
  return { lost: lost.signal, stopRenewing: () => timer.cancel() }
}
