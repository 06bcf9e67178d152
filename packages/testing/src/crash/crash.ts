// Kills a program with SIGKILL at every await of its injected dependencies, one run each; the test then checks the remaining state.
// The program is a separate file that calls crashProgram (crash-child.ts).
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { compileCache } from '../compile-cache.ts'
import { pickPoints } from './crash-points.ts'

/** Input of the child process. */
export type CrashOrder = { input: unknown; killAt: number | null; synchronous: string[] }
/** Report of a child that was not killed. */
export type CrashReport = { result?: unknown; failed?: string; points: string[]; synchronous: string[] }
export type CrashOutcome = {
  /** False when the program came to its end before the point, with a result or an error. */
  killed: boolean
  /** What its main function returned. */
  result?: unknown
  /** Error with which its main function ended. */
  failed?: string
  /** Labels of all points; empty when it was killed. */
  points: readonly string[]
  synchronous: readonly string[]
  stderr: string
}
export type CrashOptions = {
  /** Bound for a program that never survives. */
  max?: number
  /** These points; or so many, chosen by `seed`, plus the first point of every distinct call; or (left out, null) every point. */
  pick?: readonly number[] | number | null
  seed?: number
  limitMs?: number
}

/** Runs the program once, to be killed at the n-th point; without `killAt` it runs to its end. */
export async function crashAt(
  program: URL,
  order: { input: unknown; killAt?: number; synchronous?: readonly string[] },
  options: { limitMs?: number } = {},
): Promise<CrashOutcome> {
  const env = { ...process.env, ...compileCache().env }
  const child = fork(fileURLToPath(program), [], { execArgv: [], env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const limit = setTimeout(() => child.kill('SIGTERM'), options.limitMs ?? 60_000)
  let stderr = ''
  let report: CrashReport | undefined
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-16_384)))
  child.on('message', (message) => (report = message as CrashReport))
  child.send(
    { input: order.input, killAt: order.killAt ?? null, synchronous: [...(order.synchronous ?? [])] } satisfies CrashOrder,
    () => {},
  )
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (...end) => resolve(end))
  })
  clearTimeout(limit)
  if (report) return { killed: false, stderr, ...report }
  if (signal === 'SIGKILL') return { killed: true, points: [], synchronous: [], stderr }
  throw new Error(`${program.pathname} ended with ${signal ?? `code ${code}`} before it could report; its standard error:\n${stderr}`)
}

/**
 * First a run to the end, which tells the points; then one run per point. `check` is called after each of them, also for runs that came
 * to their end, and fails with the point's name. `input` may be a function, for a fresh folder or database per run (0 = the first run).
 */
export async function forEveryAwait<Input>(
  program: URL,
  input: Input | ((n: number) => Input | Promise<Input>),
  check: (n: number, outcome: CrashOutcome, input: Input) => Promise<void> | void,
  options: CrashOptions = {},
): Promise<{ points: readonly string[]; kills: number }> {
  const { max = 2_000, pick, seed = 1 } = options
  let baseline: CrashOutcome | undefined
  const runOnce = async (n: number) => {
    const crashInput = typeof input === 'function' ? await (input as (n: number) => Input | Promise<Input>)(n) : input
    const outcome = await crashAt(
      program,
      { input: crashInput, ...(n > 0 ? { killAt: n } : {}), synchronous: baseline?.synchronous ?? [] },
      options,
    )
    await checked(() => check(n, outcome, crashInput), n, outcome, baseline?.points)
    return outcome
  }
  baseline = await runOnce(0)
  let kills = 0
  for (const n of pickPoints(baseline.points, { pick, seed, max })) {
    const { killed } = await runOnce(n)
    if (killed) kills += 1
    else if (pick === undefined || pick === null) return { points: baseline.points, kills }
  }
  if (kills >= max)
    throw new Error(`${program.pathname} was killed at ${kills} points and never came to its end; raise max or pick points.`)
  return { points: baseline.points, kills }
}

async function checked(check: () => Promise<void> | void, n: number, outcome: CrashOutcome, points: readonly string[] = []): Promise<void> {
  try {
    await check()
  } catch (cause) {
    const where =
      n === 0 ? 'after a run without a kill' : `after a kill at point ${n} of ${points.length} (${points[n - 1] ?? 'beyond the first run'})`
    const details = [cause instanceof Error ? cause.message : String(cause), outcome.failed, outcome.stderr].filter(Boolean)
    throw new Error(`The check failed ${where}: ${details.join('\n')}`, { cause })
  }
}
