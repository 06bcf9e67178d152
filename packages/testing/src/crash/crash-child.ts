// The child's side of crash.ts: a program that runs one action on counted dependencies and kills itself at the n-th await.
import type { CrashOrder, CrashReport } from './crash.ts'
import { killAtAwait } from './kill-at-await.ts'

/** Counts every await on the given dependencies; the returned object behaves like the original. */
export type UnderCrash = <T extends object>(dependencies: T, name?: string) => T

/** The whole of such a program: `await crashProgram(async (input: Input, underCrash) => { await action(underCrash({ sql }), input) })`. */
export async function crashProgram(main: (input: never, underCrash: UnderCrash) => Promise<unknown>): Promise<never> {
  const order = await orderFromParent()
  // SIGKILL to oneself takes effect before the call returns: no further line of this program runs.
  const kill = () => void process.kill(process.pid, 'SIGKILL')
  const { killAt, synchronous, input } = order
  const counter = killAtAwait({ kill, synchronous, ...(killAt === null ? {} : { killAt }) })
  const outcome = await run(() => main(input as never, (dependencies, name) => counter.wrap(dependencies, name)))
  const report: CrashReport = { ...outcome, points: [...counter.points], synchronous: [...counter.synchronous] }
  await new Promise((resolve) => process.send?.(report, resolve))
  process.exit(outcome.failed === undefined ? 0 : 1)
}

async function orderFromParent(): Promise<CrashOrder> {
  if (!process.send)
    throw new Error('This program only runs under forEveryAwait or crashAt of @brokkr/testing/crash.ts, which tell it what to do.')
  process.once('disconnect', () => process.exit(1))
  return new Promise((resolve) => process.once('message', (order) => resolve(order as CrashOrder)))
}

async function run(main: () => Promise<unknown>): Promise<Pick<CrashReport, 'result' | 'failed'>> {
  try {
    return { result: (await main()) ?? null }
  } catch (error) {
    return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}
