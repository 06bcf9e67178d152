// What all schedules of the model test share: one database server, two brokers on it, a breakable link in front of each, and an address
// of the database that leads to another server once its standby is promoted.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { PostgresServer } from '@brokkr/local/postgres/postgres.ts'
import { openDatabase } from '@brokkr/postgres'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator } from '@brokkr/testing/broker.ts'
import { type FaultProxy, startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { startSwitchProxy } from '@brokkr/testing/faults/switch-proxy.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { type Standby, startStandby } from '@brokkr/testing/servers/postgres-standby.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import * as feedState from '../store/feed-state.ts'

export interface Plant {
  readonly databaseUrl: string
  readonly connect: () => Promise<pg.Client>
  readonly tenant: TestGenerator
  readonly encryptionKey: string
  readonly links: readonly [FaultProxy, FaultProxy]
  /** A client's way to one of the two, past the link. */
  client(which: number): TestGenerator['client']
  admin(which: number): TestBroker['admin']
  restart(which: number): Promise<void>
  jumpClock(which: number): void
  /** A standby has everything that is committed now, and nothing that comes later. */
  cutReplication(): Promise<void>
  /** The primary dies; back when both brokers serve what the standby has. */
  promoteStandby(): Promise<void>
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
const socketOf = ({ socketDir, port }: PostgresServer) => ({ path: join(socketDir, `.s.PGSQL.${port}`) })

export async function startPlant(): Promise<Plant> {
  const first = await privatePostgres()
  const { name } = await first.database()
  const address = await startSwitchProxy({ target: socketOf(first) })
  const databaseUrl = `postgresql://postgres:${first.password}@127.0.0.1:${address.port}/${name}`
  const broker = await startTestBroker({ databaseUrl, env, main: 'packages/broker/src/change-feed/test-parts/jumping-broker.ts' })
  const brokers: [TestBroker, TestBroker] = [broker, await broker.sibling()]
  const tenant = await createGenerator(broker)
  const link = ({ url }: TestBroker) => startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(url).port) } })
  const links: [FaultProxy, FaultProxy] = [await link(brokers[0]), await link(brokers[1])]
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
  pool.on('error', () => undefined)
  let primary: PostgresServer = first
  let standby: Standby | null = null
  return {
    databaseUrl,
    connect: async () => {
      const client = new pg.Client({ connectionString: databaseUrl })
      client.on('error', () => undefined)
      await client.connect()
      return client
    },
    tenant,
    encryptionKey: broker.encryptionKey,
    links,
    sql: async <Row extends object>(text: string, values: unknown[] = []) => (await pool.query<Row>(text, values)).rows,
    client: (which) => brokers[which]!.clientOf(tenant.pak),
    admin: (which) => brokers[which]!.admin,
    restart: async (which) => {
      await brokers[which]!.kill()
      brokers[which] = await brokers[which]!.again()
    },
    jumpClock: (which) => void process.kill(brokers[which]!.pid, 'SIGUSR2'),
    cutReplication: async () => {
      await standby?.stop()
      standby = await startStandby(primary)
      await standby.caughtUp()
      standby.link.cut()
    },
    promoteStandby: async () => {
      const [old, next] = [primary, standby!]
      await old.kill('SIGKILL')
      await next.promote()
      address.switchTo(socketOf(next.server))
      primary = next.server
      standby = null
      await next.link.close()
      // It lay in memory.
      rmSync(old.dataDir, { recursive: true })
      const sql = openDatabase({ url: databaseUrl, schema: 'public', poolSize: 1 })
      const { epoch } = await waitFor('a new epoch', async () => {
        const state = await feedState.read(sql, {})
        return state.is_same_history && !state.standby && state
      })
      await sql.close()
      for (const each of brokers) {
        const isThere = async () => (await knownEpoch(each.url)) === epoch && (await each.admin.listTasks({})).length > 0
        await waitFor('a broker in the new epoch', isThere, { onTimeout: () => each.logTail(20) })
      }
    },
    close: async () => {
      await pool.end()
      for (const each of links) await each.close()
      for (const each of brokers) await each.kill()
      await standby?.stop()
      await primary.stop()
      await address.close()
    },
  }
}

async function knownEpoch(url: string): Promise<string | undefined> {
  return /brokkr_feed_epoch_info\{epoch="([^"]+)"\} 1/.exec(await (await fetch(`${url}/metrics`)).text())?.[1]
}
