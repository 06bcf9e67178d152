// The agent's settings: one table with their defaults. Every interval is in seconds and may be a fraction.
import { type ConfigOf, count, optional, port, required, seconds, secret, setting } from '@brokkr/runtime/config-table.ts'
import { z } from 'zod'
import { operationsTable } from './config-operations.ts'
import { checkReconcileConfig, reconcileTable } from './config-reconcile.ts'

const name = z.string().min(1).max(253)
const interval = seconds.min(0.01)
const parallel = count.min(1).max(1000)
/** Takes effect without a restart. */
const hot = { hot: true }
const brokerUrl = z.url({ protocol: /^https?$/, error: 'must be an address such as https://brokkr.example.com' })
const namespace = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')

export const agentTable = {
  agent: {
    broker_url: required(brokerUrl),
    agent_name: required(name),
    cluster_name: required(name),
    /** With `pak_file` the file is watched: its next content is used without a restart. */
    pak: secret(),
    /** For an agent that has no key yet: it makes one and joins with this. */
    join_token: secret(),
    /** Of a key that the agent keeps itself; 0: never. */
    pak_rotation_days: setting(seconds, 30),
    insecure_http: setting(z.boolean(), false),
    ca_file: optional(z.string().min(1)),
    server_name: optional(z.string().min(1)),
    /** SHA-256 of the broker's public key (SubjectPublicKeyInfo), as hex or base64. */
    pin: optional(
      z.string().regex(/^(sha256\/\/)?([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$/, 'must be a SHA-256 as 64 hex digits or as base64'),
    ),
    client_cert: optional(z.string().min(1)),
    client_key: optional(z.string().min(1)),
    /** Generators to register with at the start. */
    generator_ids: setting(z.array(z.uuid()), [], { env: ['BROKKR_GENERATOR_IDS'] }),
    /** How often the broker is asked who we are before the start is given up. */
    max_retries: setting(count, 60),
    request_timeout: setting(interval, 30),
    polling_interval: setting(interval, 30, hot),
    transport: setting(z.enum(['auto', 'stream', 'longpoll', 'poll']), 'auto'),
    /** Names of the first version: true means `transport = poll`; the address is not used. */
    ws_force_rest: setting(z.boolean(), false),
    ws_url: optional(z.string()),
    stream_dead_seconds: setting(interval, 45, hot),
    /** A stream that shows no frame for so long is held back on its way; twice that in a row makes it a long poll. */
    stream_silent_seconds: setting(interval, 30),
    long_poll_seconds: setting(interval.max(60), 25),
    transport_retry_seconds: setting(interval, 600, hot),
    /** Longest pause between two tries to reach the broker. */
    reconnect_max_seconds: setting(interval, 30),
    frozen_after_seconds: setting(interval, 300, hot),
    refused_retry_seconds: setting(interval, 60),
    digest_interval: setting(interval, 300),
    /** Between two complete lists. */
    snapshot_interval: setting(interval, 86_400),
    /** Where the followed state is kept across restarts, encrypted; none: in memory alone. */
    state_dir: optional(z.string().min(1)),
    event_spool: setting(count.min(1), 10_000),
    event_spool_bytes: setting(count.min(1024), 16 * 1024 * 1024),
    lease_seconds: setting(interval.min(1), 15),
    kubeconfig_path: optional(z.string().min(1)),
    /** The agent's own: inventories and its state live there. In a pod the pod's, else brokkr-agent. */
    namespace: optional(namespace),
    health_host: optional(z.string().min(1)),
    health_port: setting(port, 8080),
    stack_concurrency: setting(parallel, 10, hot),
    kube_in_flight: setting(parallel, 32, hot),
    /** Requests to the API server per second, for those who want a rate; 0: none. */
    kube_qps: setting(z.number().min(0).max(100_000), 0, hot),
    kube_burst: setting(count.min(1).max(100_000), 100, hot),
    retry_max_seconds: setting(interval, 300, hot),
    attempt_seconds: setting(interval, 900, hot),
    ...reconcileTable,
    ...operationsTable,
    save_manifests: setting(z.boolean(), true),
    shutdown_seconds: setting(interval, 20),
  },
  log: {
    level: setting(z.enum(['trace', 'debug', 'info', 'warn', 'error']), 'info', hot),
    format: setting(z.enum(['json', 'pretty']), 'json'),
  },
}
export type AgentConfig = ConfigOf<typeof agentTable>

const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** The key travels with every request, so plain HTTP leaves this machine only when the operator says so. */
export function checkAgentConfig({ agent }: AgentConfig): { path: string; problem: string }[] {
  const { protocol, hostname, username, password, search, hash } = new URL(agent.broker_url)
  const problems = checkReconcileConfig(agent)
  if (agent.pak === null && agent.join_token === null)
    problems.push({
      path: 'agent.pak',
      problem: 'is missing: give the key as agent.pak or agent.pak_file, or join with agent.join_token_file',
    })
  if ((agent.client_cert === null) !== (agent.client_key === null))
    problems.push({ path: 'agent.client_cert', problem: 'belongs with agent.client_key: give both, or neither' })
  const wrong = (problem: string) => problems.push({ path: 'agent.broker_url', problem })
  if (protocol === 'http:' && !loopback.test(hostname) && !agent.insecure_http)
    wrong(`plain HTTP would show the agent's key to the network: use https, or set agent.insecure_http = true if you know the way there`)
  if (username !== '' || password !== '' || search !== '' || hash !== '')
    wrong('holds more than scheme, host, port and path: give the key as agent.pak')
  return problems
}
