// Converts settings to options of the broker sync and to facts for the heartbeat. Hot settings are read on each access.
import type { AgentConfig } from '../config.ts'
import type { BrokerSyncOptions } from './broker-sync.ts'

export const toSyncOptions = ({ agent }: AgentConfig): BrokerSyncOptions => ({
  transport: agent.ws_force_rest ? 'poll' : agent.transport,
  get pollMs() {
    return agent.polling_interval * 1000
  },
  get deadMs() {
    return agent.stream_dead_seconds * 1000
  },
  silentMs: agent.stream_silent_seconds * 1000,
  longPollMs: agent.long_poll_seconds * 1000,
  get transportRetryMs() {
    return agent.transport_retry_seconds * 1000
  },
  refusedRetryMs: agent.refused_retry_seconds * 1000,
  snapshotMs: agent.snapshot_interval * 1000,
  reconnect: { baseMs: Math.min(500, agent.reconnect_max_seconds * 1000), maxMs: agent.reconnect_max_seconds * 1000 },
})

/** Sent with a heartbeat after they changed. */
export const toAgentFacts = ({ agent }: AgentConfig): Record<string, unknown> => ({
  preset: agent.preset,
  policy: {
    allowed_namespaces: agent.allowed_namespaces,
    protected_namespaces: agent.protected_namespaces,
    denied_kinds: agent.denied_kinds,
    adoption: agent.adoption,
  },
  capabilities: ['stream', 'longpoll', 'poll', 'event_batches', 'telemetry', 'inventory', 'plans'],
  work_order_types: agent.work_order_types,
})
