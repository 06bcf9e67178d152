// The agent's settings: one table with their defaults. Every interval is in seconds and may be a fraction.
import { type ConfigOf, count, optional, port, required, requiredSecret, seconds, setting } from '@brokkr/runtime/config-table.ts'
import { z } from 'zod'

const name = z.string().min(1).max(253)
const interval = seconds.min(0.01)
const parallel = count.min(1).max(1000)
const brokerUrl = z.url({ protocol: /^https?$/, error: 'must be an address such as https://brokkr.example.com' })
const namespace = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')

export const agentTable = {
  agent: {
    broker_url: required(brokerUrl),
    agent_name: required(name),
    cluster_name: required(name),
    pak: requiredSecret(),
    insecure_http: setting(z.boolean(), false),
    ca_file: optional(z.string().min(1)),
    server_name: optional(z.string().min(1)),
    /** How often the broker is asked who we are before the start is given up. */
    max_retries: setting(count, 60),
    request_timeout: setting(interval, 30),
    polling_interval: setting(interval, 30),
    transport: setting(z.enum(['auto', 'stream', 'poll']), 'auto'),
    stream_dead_seconds: setting(interval, 45),
    transport_retry_seconds: setting(interval, 600),
    digest_interval: setting(interval, 300),
    kubeconfig_path: optional(z.string().min(1)),
    /** The agent's own: inventories and its state live there. In a pod the pod's, else brokkr-agent. */
    namespace: optional(namespace),
    health_host: optional(z.string().min(1)),
    health_port: setting(port, 8080),
    stack_concurrency: setting(parallel, 10),
    apply_concurrency: setting(parallel, 8),
    kube_in_flight: setting(parallel, 32),
    dry_run: setting(z.boolean(), true),
    field_validation: setting(z.enum(['Strict', 'Warn', 'Ignore']), 'Strict'),
    crd_wait_seconds: setting(interval, 60),
    retry_max_seconds: setting(interval, 300),
    attempt_seconds: setting(interval, 900),
    resync_interval: setting(interval, 600),
    allowed_namespaces: setting(z.array(namespace), []),
    denied_kinds: setting(z.array(z.string().min(1)), []),
    /** Where no stack may write, beside the agent's own namespace. */
    protected_namespaces: setting(z.array(namespace), []),
    adoption: setting(z.enum(['unowned', 'never', 'any']), 'unowned'),
    save_manifests: setting(z.boolean(), true),
    shutdown_seconds: setting(interval, 20),
  },
  log: {
    level: setting(z.enum(['trace', 'debug', 'info', 'warn', 'error']), 'info'),
    format: setting(z.enum(['json', 'pretty']), 'json'),
  },
}
export type AgentConfig = ConfigOf<typeof agentTable>

const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** The key travels with every request, so plain HTTP leaves this machine only when the operator says so. */
export function checkAgentConfig({ agent }: AgentConfig): { path: string; problem: string }[] {
  const { protocol, hostname, username, password, search, hash } = new URL(agent.broker_url)
  const problems: { path: string; problem: string }[] = []
  const wrong = (problem: string) => problems.push({ path: 'agent.broker_url', problem })
  if (protocol === 'http:' && !loopback.test(hostname) && !agent.insecure_http)
    wrong(`plain HTTP would show the agent's key to the network: use https, or set agent.insecure_http = true if you know the way there`)
  if (username !== '' || password !== '' || search !== '' || hash !== '')
    wrong('holds more than scheme, host, port and path: give the key as agent.pak')
  return problems
}
