// What all schedules of the model test share: one database server, two brokers on it, a breakable link in front of each.

import { makeGenerator, startTestBroker, type TestBroker, type TestTenant } from '@brokkr/testing/broker.ts'
import { type FaultProxy, startFaultProxy } from '@brokkr/testing/fault-proxy.ts'
import { database, type TestDatabase } from '@brokkr/testing/postgres.ts'
import pg from 'pg'

export interface Plant {
  readonly db: TestDatabase
  readonly tenant: TestTenant
  readonly encryptionKey: string
  readonly links: readonly [FaultProxy, FaultProxy]
  /** A client's way to one of the two, past the link. */
  client(which: number): TestTenant['client']
  admin(which: number): TestBroker['admin']
  restart(which: number): Promise<void>
  jumpClock(which: number): void
  sql<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>
  close(): Promise<void>
}

const env = {
  // Rows written by hand are announced by nobody; the poll that finds them is not what these schedules wait for.
  BROKKR__FEED__POLL_MS: '100',
  BROKKR__FEED__STALE_SECONDS: '[5, 60]',
  // Their followers send no heartbeats.
  BROKKR__FEED__DEAD_SECONDS: '3600',
}

export async function startPlant(): Promise<Plant> {
  const db = await database()
  const first = await startTestBroker({ databaseUrl: db.url, env, main: 'packages/broker/src/feed/test-parts/jumping-broker.ts' })
  const brokers: [TestBroker, TestBroker] = [first, await first.sibling()]
  const tenant = await makeGenerator(first)
  const link = ({ url }: TestBroker) => startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(url).port) } })
  const links: [FaultProxy, FaultProxy] = [await link(brokers[0]), await link(brokers[1])]
  const pool = new pg.Pool({ connectionString: db.url, max: 2 })
  pool.on('error', () => undefined)
  return {
    db,
    tenant,
    encryptionKey: first.encryptionKey,
    links,
    client: (which) => brokers[which]!.clientOf(tenant.pak),
    admin: (which) => brokers[which]!.admin,
    restart: async (which) => {
      await brokers[which]!.kill()
      brokers[which] = await brokers[which]!.again()
    },
    jumpClock: (which) => void process.kill(brokers[which]!.pid, 'SIGUSR2'),
    sql: async <Row extends object>(text: string, values: unknown[] = []) => (await pool.query<Row>(text, values)).rows,
    close: async () => {
      await pool.end()
      for (const each of links) await each.close()
      for (const broker of brokers) await broker.kill()
    },
  }
}
