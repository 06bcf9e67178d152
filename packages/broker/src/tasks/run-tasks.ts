// Runs the tasks of this process. A task that belongs to one process at a time is begun only with its lease, which is renewed
// while it runs; a lease that is lost stops the run. How each run went is kept for people.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { Sql } from '../store/sql.ts'
import * as taskLeases from '../store/task-leases.ts'
import type { Task } from './task.ts'

export interface RunnerDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Of this process, for people who look who runs what. */
  readonly owner: string
  /** The database has gone, which the feed has told already: no task needs to tell it again at every tick. */
  readonly isAway: (error: unknown) => boolean
}
export interface RunningTasks {
  /** The same run as by timer, now; an unknown name is nobody's. */
  wake(name: string): void
  stop(): Promise<void>
  readonly tasks: readonly Task[]
}

const leaseSeconds = 60
/** Intervals are longer than processes live; whether a run is due is asked of the database. */
const tickMsMax = 60_000
/** Timers are jittered by a tenth: a run is due when four fifths of its interval are over. */
const dueShare = 0.8

export function startTasks(deps: RunnerDeps, tasks: readonly Task[]): RunningTasks {
  const loops = new Map<string, RunningLoop>(
    tasks.map((task) => {
      const everyMs = () => (task.isEverywhere === true ? task.everyMs() : Math.min(task.everyMs(), tickMsMax))
      const run = (signal: AbortSignal) => quietWhenAway(deps, task.isEverywhere === true ? runEverywhere : runLeased, { task, signal })
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

async function quietWhenAway(deps: RunnerDeps, run: Run, { task, signal }: { task: Task; signal: AbortSignal }): Promise<Counts | void> {
  try {
    return await run(deps, task, signal)
  } catch (error) {
    if (!deps.isAway(error)) throw error
    deps.log.debug('task waits for the database', { task: task.name, error: error as Error })
  }
}

async function runEverywhere(deps: RunnerDeps, task: Task, signal: AbortSignal): Promise<Counts> {
  const { record, end } = await runOnce(deps, task, signal)
  if (end.is !== 'stopped') await taskLeases.note(deps.sql, record)
  return countsOf(end)
}

async function runLeased(deps: RunnerDeps, task: Task, stopping: AbortSignal): Promise<Counts | void> {
  const mine = { name: task.name, owner: deps.owner }
  const due_after_seconds = (task.everyMs() / 1000) * dueShare
  if ((await taskLeases.take(deps.sql, { ...mine, lease_seconds: leaseSeconds, due_after_seconds })) === null) return
  const lease = holdLease(deps, mine)
  try {
    const { record, end } = await runOnce(deps, task, AbortSignal.any([stopping, lease.lost]))
    if (end.is === 'stopped') await taskLeases.release(deps.sql, mine)
    else await taskLeases.finish(deps.sql, record)
    return countsOf(end)
  } finally {
    lease.letGo()
  }
}

type End = { readonly is: 'ok'; readonly counts: Counts } | { readonly is: 'failed'; readonly error: Error } | { readonly is: 'stopped' }

async function runOnce(deps: RunnerDeps, task: Task, signal: AbortSignal): Promise<{ record: taskLeases.RunRecord; end: End }> {
  const startedMs = deps.clock.monotonicMs()
  const end = await endOf(task, signal)
  const ran_seconds = (deps.clock.monotonicMs() - startedMs) / 1000
  const { metrics } = deps
  metrics
    .counter('brokkr_task_runs_total', 'Runs of a background task by result', ['task', 'result'])
    .inc({ task: task.name, result: end.is })
  metrics
    .histogram('brokkr_task_duration_seconds', 'Duration of the runs of a background task', ['task'])
    .observe({ task: task.name }, ran_seconds)
  const result = end.is === 'ok' ? JSON.stringify(end.counts) : null
  const error = end.is === 'failed' ? end.error.message.slice(0, 500) : null
  return { record: { name: task.name, owner: deps.owner, ran_seconds, result, error }, end }
}

async function endOf(task: Task, signal: AbortSignal): Promise<End> {
  try {
    return { is: 'ok', counts: await task.run(signal) }
  } catch (error) {
    return signal.aborted ? { is: 'stopped' } : { is: 'failed', error: error instanceof Error ? error : new Error(String(error)) }
  }
}

/** A failure is thrown on, to the loop that logs it. */
function countsOf(end: End): Counts {
  if (end.is === 'failed') throw end.error
  return end.is === 'ok' ? end.counts : {}
}

/** Renews well before the end; the run stops before somebody else may begin. */
function holdLease(deps: RunnerDeps, mine: { name: string; owner: string }): { lost: AbortSignal; letGo(): void } {
  const lost = new AbortController()
  const renew = async () => {
    const kept = await taskLeases.renew(deps.sql, { ...mine, lease_seconds: leaseSeconds }).catch(() => 0)
    if (kept === 0) lost.abort(new Error(`the lease of task ${mine.name} is lost`))
    else timer = deps.clock.setTimer((leaseSeconds * 1000) / 3, () => void renew())
  }
  let timer = deps.clock.setTimer((leaseSeconds * 1000) / 3, () => void renew())
  return { lost: lost.signal, letGo: () => timer.cancel() }
}
