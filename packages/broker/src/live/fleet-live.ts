// Live view of the fleet: one update per agent when it connects, disconnects, changes or is heard (at most one per second), and every 20 s
// for agents whose other signals changed. Nothing is read while this process has no subscriber.
import type { FleetAgentRecord } from '@brokkr/contract/agents/fleet.ts'
import type { Sql } from '@brokkr/postgres'
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as fleet from '../agents/store/fleet.ts'
import { toFleetFrame } from './rules.ts'
import type { SocketConnection } from './socket-connection.ts'
import * as liveStore from './store.ts'

export interface FleetLive {
  readonly subscriberCount: number
  subscribe(connection: SocketConnection): () => void
  readonly touch: (agentId: string) => void
  /** The two loops that send updates. */
  readonly loops: readonly Loop[]
}

const agentsPerRead = 500
const heardMax = 1000
const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export function createFleetLive(deps: { sql: Sql }): FleetLive {
  const subscribers = new Set<SocketConnection>()
  const touched = new Set<string>()
  /** Signals of each agent as last sent. */
  const sent = new Map<string, string>()
  /** Position in the order of last signs of life; several agents can have the same time. */
  let heardUntil: { readonly since: string; readonly after_id: string } | null = null

  const send = (records: readonly FleetAgentRecord[]) => {
    for (const record of records) {
      sent.set(record.agent_id, toSignals(record))
      const text = toFleetFrame(record)
      for (const connection of subscribers) connection.send('telemetry', 'fleet_update', text)
    }
  }
  const sendTouched = async () => {
    if (subscribers.size === 0) {
      touched.clear()
      heardUntil = null
      return
    }
    heardUntil ??= { since: (await liveStore.now(deps.sql, {})).now, after_id: lastId }
    const heard = await liveStore.heardSince(deps.sql, { ...heardUntil, limit: heardMax })
    const last = heard.at(-1)
    if (last !== undefined) heardUntil = { since: last.last_seen_at, after_id: last.agent_id }
    const agentIds = [...new Set([...touched, ...heard.map(({ agent_id }) => agent_id)])]
    touched.clear()
    for (let start = 0; start < agentIds.length; start += agentsPerRead)
      send(await fleet.listAmong(deps.sql, { ids: agentIds.slice(start, start + agentsPerRead) }))
  }
  const sendChanged = async () => {
    if (subscribers.size === 0) return sent.clear()
    for (let after = { after_name: '', after_id: '00000000-0000-0000-0000-000000000000' }; ; ) {
      const page = await fleet.list(deps.sql, { generator_id: null, ...after, limit: agentsPerRead })
      // An agent without an earlier update is new to this process, not changed.
      for (const record of page) if (!sent.has(record.agent_id)) sent.set(record.agent_id, toSignals(record))
      send(page.filter((record) => sent.get(record.agent_id) !== toSignals(record)))
      const last = page.at(-1)
      if (last === undefined || page.length < agentsPerRead) return
      after = { after_name: last.name, after_id: last.agent_id }
    }
  }
  return {
    get subscriberCount() {
      return subscribers.size
    },
    subscribe: (connection) => {
      subscribers.add(connection)
      return () => void subscribers.delete(connection)
    },
    touch: (agentId) => {
      if (subscribers.size > 0) touched.add(agentId)
    },
    loops: [
      { name: 'fleet-updates', everyMs: 1_000, run: sendTouched },
      { name: 'fleet-signals', everyMs: 20_000, run: sendChanged },
    ],
  }
}

/** Ages grow by themselves; they are no change. */
const toSignals = (record: FleetAgentRecord): string =>
  JSON.stringify({ ...record, heartbeat_age_seconds: null, seconds_since_last_event: null, last_heartbeat: null })
