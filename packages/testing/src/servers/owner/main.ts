// The process that owns every server of a test run: `servers-main.ts <run id>`, started by servers-owner.ts. It lives as long as its
// standard input is open, starts each server on first request, and leaves nothing behind.
import { join } from 'node:path'
import { listenForCalls } from './listen.ts'
import { Loans } from './loans.ts'
import { type Borrower, type Handlers, toSocketPath } from './protocol.ts'
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
  // Registered first: the parent can exit before the start is complete.
  const over = waitForStdinEnd()
  await sweepDeadRuns()
  const owned = own(openTestRun(id))
  try {
    const server = await listenForCalls(toSocketPath(owned.run.folder), buildHandlers(owned))
    await over
    server.close()
  } finally {
    await stop(owned)
  }
}

/** Signals count as the end, too, and however many come they do not interrupt the cleaning. */
function waitForStdinEnd(): Promise<void> {
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
    kube: sharedKube({ dir: join(run.folder, 'kube'), signal, onStarted: (started) => run.note(started), onProgress: writeError }),
    data: sharedDataServers({ dir: run.folder, signal, onStarted: (started) => run.note([started]), onProgress: writeError }),
    tidying: Promise.resolve(),
  }
}

function buildHandlers(owned: Owned): Handlers {
  const { run, postgres, kube, data, loans } = owned
  return {
    'postgres.create': ({ from }, by) => {
      cleanUp(owned, by)
      return postgres.create(from, by)
    },
    'postgres.drop': ({ name }) => postgres.drop(name).then(() => null),
    'kube.plane': (wish) => kube.plane(wish),
    kafka: () => data.kafka(),
    schemaRegistry: () => data.schemaRegistry(),
    clickhouse: () => data.clickhouse(),
    trino: () => data.trino(),
    nessie: () => data.nessie(),
    'kube.assets': ({ stage }) => kube.assets(stage),
    'loan.folder': ({ kind }, by) => {
      cleanUp(owned, by)
      return loans.lend(kind, by)
    },
    'loan.note': async ({ folder, processes }) => {
      loans.note(folder, processes)
      return null
    },
    status: async () => ({ pid: process.pid, folders: [run.folder, run.fastFolder], processes: [...run.processes] }),
  }
}

/** Runs in the background, one after the other. */
function cleanUp(owned: Owned, by: Borrower): void {
  owned.tidying = owned.tidying
    .then(() => owned.loans.takeBack(by))
    .then(() => owned.postgres.dropEarlier(by))
    .catch((error: unknown) => writeError(`cannot clear away what an earlier test file left: ${String(error)}`))
}

async function stop(owned: Owned): Promise<void> {
  owned.stopping.abort(new Error('the test run is over'))
  const outcomes = await Promise.allSettled([owned.postgres.stop(), owned.kube.stop(), owned.data.stop(), owned.tidying])
  for (const outcome of outcomes) if (outcome.status === 'rejected') writeError(`cannot stop a server in order: ${String(outcome.reason)}`)
  // Ends remaining processes by recorded pid.
  await owned.run.remove()
}

/** Standard error of the runner, if it still runs. */
function writeError(line: string): void {
  process.stderr.write(`test servers: ${line}\n`)
}

process.stderr.on('error', () => {})
await main(process.argv[2] ?? '')
// Idle sockets of tests must not keep us.
process.exit(0)
