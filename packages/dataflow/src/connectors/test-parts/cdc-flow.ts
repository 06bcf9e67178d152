// A change-capture source against a database of its own, driven by hand: read in the background, stopped in order or killed.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { afterEach, beforeEach, onTestFinished } from 'vitest'
import { postgresqlCdcSource } from '../cdc/index.ts'
import { parseLsn } from '../cdc/pgoutput.ts'
import type { Budget, Message, Source, SourceContext } from '../connector.ts'
import { sourceConfig } from './configs.ts'
import { endlessBudget, nothingSeen, type Seen, sourceContext } from './contexts.ts'

export type CdcFlow = {
  source: Source
  read: Message[]
  seen: Seen
  saved: () => JsonObject | undefined
  stop: () => Promise<void>
  /** Ends it as a killed process would: the connections break, nothing is sent before. */
  kill: () => Promise<void>
  done: Promise<unknown>
}

/** For every test of a file: a database and a slot name. */
export class CdcWorld {
  database!: TestDatabase
  admin!: pg.Client
  slotName = ''

  async begin(): Promise<void> {
    this.database = await emptyDatabase()
    this.admin = await this.database.connect()
    this.slotName = `slot_${this.database.name}`
  }

  /** A slot would keep the server's log and the database. */
  async end(): Promise<void> {
    await waitFor('the slot to be free', async () => {
      await this.admin.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active`, [
        this.slotName,
      ])
      return this.admin
        .query(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1`, [this.slotName])
        .then(
          () => true,
          () => false,
        )
    })
    await this.admin.end()
  }

  /** The configuration of a flow under this world's slot and publication. */
  config(config: object): ReturnType<typeof sourceConfig<'postgresql-cdc'>> {
    const { slotName, database } = this
    return sourceConfig('postgresql-cdc', {
      connectionString: database.url,
      slotName,
      publicationName: `pub_${slotName}`,
      heartbeatIntervalSeconds: 1,
      ...config,
    })
  }

  /** Reads in the background, as a flow does. */
  async follow(config: object, context: Partial<SourceContext> = {}, budget: Budget = endlessBudget): Promise<CdcFlow> {
    const stopping = new AbortController()
    const seen = nothingSeen()
    let saved: JsonObject | undefined = context.stored
    const full = sourceContext({ signal: stopping.signal, ...context }, seen)
    const source: Source = postgresqlCdcSource.open(this.config(config), { ...full, stateChanged: () => void (saved = source.state()) })
    await source.connect()
    const read: Message[] = []
    const done = (async () => {
      for await (const { messages } of source.read(budget)) read.push(...messages)
    })()
    // Expected where a test looks at it; where it does not, a wait that ends in vain says why.
    done.catch((error: unknown) => seen.notices.push(`failed: ${String(error)}`))
    const stop = async () => {
      stopping.abort()
      await done.catch(() => undefined)
      await source.close()
    }
    const kill = async () => {
      await this.admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'brokkr/test/flow' and datname = current_database()`,
      )
      await done.catch(() => undefined)
      await stop()
    }
    onTestFinished(stop)
    return { source, read, seen, saved: () => saved, stop, kill, done }
  }

  /** What the flow failed with, and what the server is doing. */
  async explain(flow: CdcFlow): Promise<string> {
    const busy = await this.admin.query(
      `select datname, state, wait_event, backend_xid, age(backend_xmin), xact_start, left(query, 100) as query from pg_stat_activity where state is not null`,
    )
    return `${flow.seen.notices.join()}\n${busy.rows.map((row) => JSON.stringify(row)).join('\n')}`
  }

  streaming(flow: CdcFlow): Promise<boolean> {
    return waitFor(
      'the stream',
      async () =>
        (
          await this.admin.query(
            `select 1 from pg_stat_replication where state = 'streaming' and pid in (select active_pid from pg_replication_slots where slot_name = $1)`,
            [this.slotName],
          )
        ).rows.length === 1,
      { onTimeout: () => this.explain(flow) },
    )
  }

  async confirmed(): Promise<bigint> {
    const text = `select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = $1`
    return parseLsn((await this.admin.query<{ at: string }>(text, [this.slotName])).rows[0]!.at)
  }

  async walEnd(): Promise<bigint> {
    return parseLsn((await this.admin.query<{ at: string }>('select pg_current_wal_lsn()::text as at')).rows[0]!.at)
  }
}

export function useCdcWorld(): CdcWorld {
  const world = new CdcWorld()
  beforeEach(() => world.begin())
  afterEach(() => world.end())
  return world
}

export const upTo = (message: Message) => new Map([['slot', message.position]])
export const payloads = (messages: readonly Message[]) =>
  messages.map(({ raw }) => JSON.parse(Buffer.from(raw!).toString()) as Record<string, unknown>)
