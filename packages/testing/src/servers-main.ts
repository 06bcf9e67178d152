// The process that owns every server of a test run: `servers-main.ts <run id>`, started by servers-owner.ts. It lives as long as its
// standard input is open, starts each server on first request, and leaves nothing behind.
import { join } from 'node:path'
import { Loans } from './loans.ts'
import { listenForCalls } from './servers-listen.ts'
import { type Borrower, type Handlers, socketPathOf } from './servers-protocol.ts'
import { type SharedDataServers, sharedDataServers } from './shared-data-servers.ts'
import { type SharedKube, sharedKube } from './shared-kube.ts'
import { type SharedPostgres, sharedPostgres } from './shared-postgres.ts'
import { openTestRun, sweepDeadRuns, type TestRun } from './test-run.ts'

type Owned = {
  run: TestRun
  postgres: SharedPostgres
  kube: SharedKube
  data: SharedDataServers
  loans: Loans
  stopping: AbortController
  tidying: Promise<unknown>
}

async function main(id: string): Promise<void> {
  // From the first moment: whoever started us may be gone before we have begun.
  const over = lifelineEnds()
  await sweepDeadRuns()
  const owned = own(openTestRun(id))
  try {
    const server = await listenForCalls(socketPathOf(owned.run.folder), handlersOf(owned))
    await over
    server.close()
  } finally {
    await stop(owned)
  }
}

/** Signals count as the end, too, and however many come they do not interrupt the cleaning. */
function lifelineEnds(): Promise<void> {
  return new Promise((resolve) => {
    for (const event of ['end', 'close', 'error']) process.stdin.once(event, () => resolve())
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => resolve())
    process.stdin.resume()
  })
}

function own(run: TestRun): Owned {
  const stopping = new AbortController()
  const { signal } = stopping
  return {
    run,
    stopping,
    loans: new Loans(run),
    postgres: sharedPostgres({ dir: join(run.fastFolder, 'postgres'), signal, onStarted: (started) => run.note([started]) }),
    kube: sharedKube({ dir: join(run.folder, 'kube'), signal, onStarted: (started) => run.note(started), onProgress: say }),
    data: sharedDataServers({ dir: run.folder, signal, onStarted: (started) => run.note([started]), onProgress: say }),
    tidying: Promise.resolve(),
  }
}

function handlersOf(owned: Owned): Handlers {
  const { run, postgres, kube, data, loans } = owned
  return {
    'postgres.create': ({ from }, by) => {
      tidy(owned, by)
      return postgres.create(from, by)
    },
    'postgres.drop': ({ name }) => postgres.drop(name).then(() => null),
    'kube.plane': (wish) => kube.plane(wish),
    kafka: () => data.kafka(),
    schemaRegistry: () => data.schemaRegistry(),
    'kube.assets': ({ stage }) => kube.assets(stage),
    'loan.folder': ({ kind }, by) => {
      tidy(owned, by)
      return loans.lend(kind, by)
    },
    'loan.note': async ({ folder, processes }) => {
      loans.note(folder, processes)
      return null
    },
    status: async () => ({ pid: process.pid, folders: [run.folder, run.fastFolder], processes: [...run.processes] }),
  }
}

/** Aside, one after the other: nobody waits for it. */
function tidy(owned: Owned, by: Borrower): void {
  owned.tidying = owned.tidying
    .then(() => owned.loans.takeBack(by))
    .then(() => owned.postgres.dropEarlier(by))
    .catch((error: unknown) => say(`cannot clear away what an earlier test file left: ${String(error)}`))
}

async function stop(owned: Owned): Promise<void> {
  owned.stopping.abort(new Error('the test run is over'))
  const outcomes = await Promise.allSettled([owned.postgres.stop(), owned.kube.stop(), owned.data.stop(), owned.tidying])
  for (const outcome of outcomes) if (outcome.status === 'rejected') say(`cannot stop a server in order: ${String(outcome.reason)}`)
  // Ends what is still there by its recorded pid.
  await owned.run.remove()
}

/** The runner's standard error; when it is gone nobody listens. */
function say(line: string): void {
  process.stderr.write(`test servers: ${line}\n`)
}

process.stderr.on('error', () => {})
await main(process.argv[2] ?? '')
// Idle sockets of tests must not keep us.
process.exit(0)
