// The agent's settings: one table with defaults and descriptions. Intervals are seconds and may be fractions.
import { type ConfigOf, count, optional, port, required, seconds, secret, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'
import { operationsTable } from './config-operations.ts'
import { checkReconcileConfig, reconcileTable } from './config-reconcile.ts'

const name = z.string().min(1).max(253)
const interval = seconds.min(0.01)
const parallel = count.min(1).max(1000)
const nonEmptyText = z.string().min(1)
const days = z.number().nonnegative().max(315_360_000)
const brokerUrl = z.url({ protocol: /^https?$/, error: 'must be an address such as https://brokkr.example.com' })
const namespace = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')

export const agentTable = {
  agent: {
    broker_url: required(brokerUrl, { description: 'Address of the broker.' }),
    agent_name: required(name, { description: 'Name of this agent at the broker.' }),
    cluster_name: required(name, { description: 'Name of this cluster at the broker.' }),
    pak: secret({ description: "The agent's PAK. Changes of pak_file take effect without a restart." }),
    join_token: secret({ description: 'Join token of an invite, for an agent without a PAK. It creates its PAK and joins once.' }),
    pak_rotation_days: setting(days, 30, {
      description: 'Age after which the agent renews a PAK that it created itself. 0: never.',
      unit: 'days',
    }),
    insecure_http: setting(z.boolean(), false, { description: 'Allows plain HTTP to a broker that is not on this machine.' }),
    ca_file: optional(nonEmptyText, { description: "PEM file with the CA certificates that the broker's certificate must chain to." }),
    server_name: optional(nonEmptyText, {
      description: "Name that the broker's certificate must contain, if it differs from the host of broker_url.",
    }),
    pin: optional(
      z.string().regex(/^(sha256\/\/)?([0-9a-fA-F]{64}|[A-Za-z0-9+/]{43}=)$/, 'must be a SHA-256 as 64 hex digits or as base64'),
      {
        description: "SHA-256 of the broker's public key (SubjectPublicKeyInfo), as hex or base64. Checked in addition to the certificate.",
      },
    ),
    client_cert: optional(nonEmptyText, { description: 'PEM file with the client certificate for the broker. Needs client_key.' }),
    client_key: optional(nonEmptyText, { description: 'PEM file with the key of client_cert.' }),
    generator_ids: setting(z.array(z.uuid()), [], {
      description: 'Ids of the generators that the agent registers with when it starts.',
      env: ['BROKKR_GENERATOR_IDS'],
    }),
    max_retries: setting(count, 60, {
      description: 'Number of retries before the agent exits if the broker is unreachable at start.',
      unit: 'retries',
    }),
    request_timeout: setting(interval, 30, { description: 'Time limit of one request to the broker.' }),
    polling_interval: setting(interval, 30, {
      description: 'Interval between two polls of desired state and work orders. Heartbeats use it up to 30 seconds.',
      hot: true,
    }),
    transport: setting(z.enum(['auto', 'stream', 'longpoll', 'poll']), 'auto', {
      description: 'How the agent receives changes. auto prefers the stream and falls back to long poll and poll.',
    }),
    ws_force_rest: setting(z.boolean(), false, { description: 'Accepted for v1: true means transport: poll.' }),
    ws_url: optional(z.string(), { description: 'Accepted for v1 and ignored.' }),
    stream_dead_seconds: setting(interval, 45, {
      description: 'Silence after which a stream counts as dead and is opened again.',
      hot: true,
    }),
    stream_silent_seconds: setting(interval, 30, {
      description: 'Time limit for the first frame of a stream. After two such streams in a row the agent uses long poll.',
    }),
    long_poll_seconds: setting(interval.max(60), 25, { description: 'Time that the broker holds a long poll open.' }),
    transport_retry_seconds: setting(interval, 600, {
      description: 'Interval after which a better transport is tried again.',
      hot: true,
    }),
    reconnect_max_seconds: setting(interval, 30, { description: 'Longest pause between two attempts to reach the broker.' }),
    frozen_after_seconds: setting(interval, 300, {
      description: 'Time of continuous rejections of the PAK after which the agent stops writing to its cluster.',
      hot: true,
    }),
    refused_retry_seconds: setting(interval, 60, { description: 'Pause between two attempts while the broker rejects the PAK.' }),
    digest_interval: setting(interval, 300, { description: "Interval between two comparisons of the desired state's digest." }),
    snapshot_interval: setting(interval, 86_400, { description: 'Interval between two complete snapshots of the desired state.' }),
    state_dir: optional(nonEmptyText, {
      description: 'Directory in which the desired state is stored encrypted across restarts. Without it, only in memory.',
    }),
    event_spool: setting(count.min(1), 10_000, {
      description: 'Maximum number of agent events that wait for the broker.',
      unit: 'events',
    }),
    event_spool_bytes: setting(count.min(1024), 16 * 1024 * 1024, {
      description: 'Maximum size of the agent events that wait for the broker.',
    }),
    lease_seconds: setting(interval.min(1), 15, { description: 'Duration of the Lease that lets one process of this agent write.' }),
    kubeconfig_path: optional(nonEmptyText, { description: "Kubeconfig of the cluster. Without it, the pod's ServiceAccount." }),
    namespace: optional(namespace, {
      description: "Namespace of the agent's inventories and state. Without it, the pod's namespace, outside a pod brokkr-agent.",
    }),
    health_host: optional(nonEmptyText, {
      description: 'Address of the health and metrics server. Without it, 0.0.0.0 in a pod, else 127.0.0.1.',
    }),
    health_port: setting(port, 8080, { description: 'Port of the health and metrics server. 0: any free port.' }),
    stack_concurrency: setting(parallel, 10, {
      description: 'Maximum number of stacks that are reconciled at the same time.',
      unit: 'stacks',
      hot: true,
    }),
    kube_in_flight: setting(parallel, 32, {
      description: 'Maximum number of concurrent requests to the API server.',
      unit: 'requests',
      hot: true,
    }),
    kube_qps: setting(z.number().min(0).max(100_000), 0, {
      description: 'Maximum rate of requests to the API server. 0: no limit.',
      unit: 'requests per second',
      hot: true,
    }),
    kube_burst: setting(count.min(1).max(100_000), 100, {
      description: 'Number of requests that may exceed kube_qps in a burst.',
      unit: 'requests',
      hot: true,
    }),
    retry_max_seconds: setting(interval, 300, { description: 'Longest pause between two attempts of a failed stack.', hot: true }),
    attempt_seconds: setting(interval, 900, { description: 'Time limit of one attempt of a stack.', hot: true }),
    ...reconcileTable,
    ...operationsTable,
    save_manifests: setting(z.boolean(), true, {
      description: 'Stores the manifest of each stack in its parent Secret, so that drift is healed after a restart without the broker.',
    }),
    shutdown_seconds: setting(interval, 20, { description: 'Time limit of an orderly shutdown.' }),
  },
  log: {
    level: setting(z.enum(['trace', 'debug', 'info', 'warn', 'error']), 'info', {
      description: 'Lowest level of log lines that are written.',
      hot: true,
    }),
    // v1 calls the format for people `text`.
    format: setting(
      z.enum(['json', 'pretty', 'text']).transform((format) => (format === 'text' ? 'pretty' : format)),
      'json',
      { description: 'Format of log lines: json for machines, pretty for terminals. text means pretty.' },
    ),
  },
}
export type AgentConfig = ConfigOf<typeof agentTable>

const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Checks rules between settings. Plain HTTP to another machine needs an explicit setting, because every request contains the PAK. */
export function checkAgentConfig({ agent }: AgentConfig): { path: string; problem: string }[] {
  const { protocol, hostname, username, password, search, hash } = new URL(agent.broker_url)
  const problems = checkReconcileConfig(agent)
  if (agent.pak === null && agent.join_token === null)
    problems.push({
      path: 'agent.pak',
      problem: 'is missing: set agent.pak or agent.pak_file, or join with agent.join_token_file',
    })
  if ((agent.client_cert === null) !== (agent.client_key === null))
    problems.push({ path: 'agent.client_cert', problem: 'needs agent.client_key: set both or neither' })
  const rejectUrl = (problem: string) => problems.push({ path: 'agent.broker_url', problem })
  if (protocol === 'http:' && !loopback.test(hostname) && !agent.insecure_http)
    rejectUrl(`plain HTTP would send the PAK in clear text: use https, or set agent.insecure_http = true for a trusted network`)
  if (username !== '' || password !== '' || search !== '' || hash !== '')
    rejectUrl('must contain only scheme, host, port and path: set the PAK as agent.pak')
  return problems
}
