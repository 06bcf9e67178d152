// The broker's settings: one table with their defaults. What is marked hot takes effect at a reload.
import { randomBytes } from 'node:crypto'
import { readEnvironment } from '@brokkr/runtime/config/environment-settings.ts'
import {
  type ConfigOf,
  count,
  optional,
  port,
  requiredSecret,
  seconds,
  secret,
  secretList,
  setting,
} from '@brokkr/runtime/config/settings.ts'
import { isCidr } from '@brokkr/runtime/http-client/address.ts'
import { z } from 'zod'
import { acceptedDatabaseSettings, acceptedSections } from './accepted-settings.ts'
import { isSampleHash } from './auth/sample-paks.ts'
import {
  diagnosticSettings,
  loginSettings,
  pakProblems,
  pakSettings,
  traceOverrides,
  traceSettings,
  workOrderSettings,
} from './feature-settings.ts'

const span = z.tuple([seconds, seconds])
/** At most a hundred years, so that no date of the database overflows. */
const days = z.number().nonnegative().max(36_500)
const origin = z.string().regex(/^(\*|https?:\/\/[^/\s]+)$/, 'must be an origin such as https://console.example.com, without a path, or *')
const httpUrl = z.url({ protocol: /^https?$/ })
const hexKey = z.string().regex(/^[0-9a-f]{64}$/i, 'must be 64 hex digits (32 bytes)')
const hexHash = z.string().regex(/^[0-9a-f]{64}$/, 'must be the 64 lower-case hex digits of a SHA-256')

/** `text` is the name that the first version has for lines for people. */
const logFormat = z.enum(['json', 'pretty', 'text']).transform((format) => (format === 'text' ? 'pretty' : format))

/** tasks.<name>.every_seconds: another interval than the task's own. */
const everySeconds = () => ({
  every_seconds: optional(seconds, { description: "Interval of this task, instead of the task's own.", hot: true }),
})
const taskTable = {
  'change-log-cleanup': everySeconds(),
  'agent-liveness': everySeconds(),
  'audit-cleanup': everySeconds(),
  housekeeping: everySeconds(),
  'target-verify': everySeconds(),
  'summary-verify': everySeconds(),
  'webhook-delivery': everySeconds(),
  'webhook-cleanup': everySeconds(),
  'telemetry-cleanup': everySeconds(),
  'work-order-maintenance': everySeconds(),
  'diagnostic-cleanup': everySeconds(),
}

export const brokerTable = {
  database: {
    url: requiredSecret({ description: 'Connection URL of the PostgreSQL database.', env: ['DATABASE_URL'] }),
    schema: setting(z.string().regex(/^[A-Za-z][A-Za-z0-9_]{0,62}$/), 'public', {
      description: "PostgreSQL schema that contains the broker's tables.",
    }),
    pool_size: setting(count.min(1).max(1000), 50, {
      description: 'Maximum number of database connections of one broker process for requests and tasks.',
      unit: 'connections',
    }),
    ...acceptedDatabaseSettings,
  },
  server: {
    host: optional(z.string().min(1), { description: 'Address to listen on. Without it: 127.0.0.1 for plain HTTP, 0.0.0.0 with TLS.' }),
    port: setting(port, 3000, { description: 'Port of the API. 0: a free port.' }),
    tls_terminated_elsewhere: setting(z.boolean(), false, {
      description: 'States that a proxy in front terminates TLS; allows plain HTTP on other addresses than loopback.',
    }),
    tls_cert_file: optional(z.string().min(1), { description: 'Path of the TLS certificate chain (PEM); needs server.tls_key_file.' }),
    tls_key_file: optional(z.string().min(1), { description: 'Path of the TLS private key (PEM); needs server.tls_cert_file.' }),
    trusted_proxies: setting(z.array(z.string()), [], {
      description: 'Addresses or networks of proxies whose forwarding headers name the client address.',
    }),
    shutdown_seconds: setting(seconds, 30, { description: 'Grace period for requests and streams after a signal to stop.' }),
  },
  limits: {
    body_bytes: setting(count, 2 * 1024 * 1024, { description: 'Maximum size of a request body, except submissions of manifests.' }),
    object_body_bytes: setting(count, 8 * 1024 * 1024, { description: 'Maximum size of a request body that submits a manifest.' }),
    header_seconds: setting(seconds, 10, { description: 'Time limit for receiving the headers of a request.' }),
    body_seconds: setting(seconds, 30, { description: 'Time limit for receiving the body of a request.' }),
    handler_seconds: setting(seconds, 30, { description: 'Time limit for processing a request; then the response is 503.' }),
    answer_stall_seconds: setting(seconds, 30, {
      description: 'Time after which a client that reads nothing of its response is disconnected.',
    }),
    event_loop_delay_ms: setting(z.number().positive().max(60_000), 200, {
      description: 'Event-loop delay above which new requests are rejected with 503.',
    }),
    pool_wait_seconds: setting(seconds, 5, {
      description: 'Waiting time for a database connection above which new requests are rejected with 503.',
    }),
    calls_in_progress: setting(count.min(1), 2000, {
      description: 'Maximum number of requests in progress, without streams; further requests are rejected with 503.',
      unit: 'requests',
    }),
  },
  cors: {
    allowed_origins: setting(z.array(origin), [], {
      description: 'Origins that browsers may call the API from. *: any origin.',
      hot: true,
    }),
    allowed_methods: setting(z.array(z.string()), ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], {
      description: 'Methods that cross-origin requests may use.',
      hot: true,
    }),
    allowed_headers: setting(z.array(z.string()), ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Generator-Key'], {
      description: 'Headers that cross-origin requests may send.',
      hot: true,
    }),
    max_age_seconds: setting(seconds, 3600, { description: 'Time for which browsers may cache a preflight response.', hot: true }),
  },
  metrics: { port: optional(port, { description: 'Port of metrics and probes. Without it, the API port serves them.' }) },
  log: {
    level: setting(z.enum(['trace', 'debug', 'info', 'warn', 'error']), 'info', {
      description: 'Lowest level of log lines that are written.',
      hot: true,
    }),
    format: setting(logFormat, 'json', { description: 'Format of log lines: json for machines, pretty for terminals. text means pretty.' }),
  },
  broker: {
    pak_hash: optional(hexHash, {
      description:
        'SHA-256 of the long part of the first admin PAK. Without it, the broker generates the PAK and writes it to broker.admin_pak_file.',
    }),
    admin_pak_file: setting(z.string().min(1), '/tmp/brokkr-keys/key.txt', {
      description: 'Path to which a generated admin PAK is written at the first start.',
    }),
    admin_pak_file_seconds: setting(seconds, 3600, { description: 'Time after which the file with the generated admin PAK is deleted.' }),
    allow_sample_pak: setting(z.boolean(), false, { description: 'Allows a published sample PAK as admin PAK, for trials only.' }),
    encryption_key: secret({
      description:
        'Key that encrypts manifests and webhook secrets in the database, 64 hex digits. A named file that does not exist is created. Keep a copy: without the key the data is lost.',
      schema: hexKey,
      generate: () => randomBytes(32).toString('hex'),
    }),
    webhook_encryption_key: secret({ description: 'Older name of broker.encryption_key.', schema: hexKey }),
    encryption_keys_previous: secretList({
      description: 'Previous encryption keys, to decrypt rows that were not encrypted again yet.',
      schema: hexKey,
    }),
    audit_log_retention_days: setting(days, 90, {
      description: 'Time after which audit entries are deleted. 0: never.',
      hot: true,
    }),
    audit_cleanup_interval_seconds: setting(seconds, 86_400, {
      description: 'Interval of the task that deletes old audit entries.',
      hot: true,
    }),
    agent_events_retention_days: setting(days, 0, {
      description: 'Time after which agent events are deleted. 0: never.',
      hot: true,
    }),
    audit_batch_size: setting(count.min(1).max(1000), 100, {
      description: 'Maximum number of audit entries of denied calls that are written in one statement.',
      unit: 'entries',
    }),
    audit_flush_ms: setting(z.number().positive().max(60_000), 1000, {
      description: 'Maximum delay before audit entries of denied calls are written.',
    }),
    idempotency_seconds: setting(seconds, 86_400, { description: 'Time for which the response to an idempotency key is stored.' }),
    session_seconds: setting(seconds, 43_200, { description: 'Maximum lifetime of a session.' }),
    session_idle_seconds: setting(seconds, 3600, { description: 'Time without a request after which a session ends.' }),
    auth_cache_ttl_seconds: setting(seconds, 60, {
      description: 'Time for which a verified PAK is cached. Revocations take effect immediately, through the change feed.',
      hot: true,
    }),
    agent_image: optional(z.string().regex(/^[\w][\w.:/@-]{0,511}$/, 'must be an image such as ghcr.io/example/brokkr-agent@sha256:…'), {
      description: 'Container image of the agent in join manifests, preferably with a digest.',
    }),
    agent_self_registration: setting(z.boolean(), false, {
      description: 'Allows agents to register with generators that no admin assigned to them.',
      hot: true,
    }),
    agent_disconnect_after_seconds: setting(seconds, 90, {
      description: 'Time without a heartbeat after which an agent is shown as disconnected.',
      hot: true,
    }),
    webhook_delivery_interval_seconds: setting(seconds, 5, {
      description: 'Interval of the task that sends webhook deliveries, besides wake-ups by the change feed.',
      hot: true,
    }),
    webhook_delivery_batch_size: setting(count.min(1).max(1000), 50, {
      description: 'Maximum number of deliveries that are claimed at once.',
      unit: 'deliveries',
      hot: true,
    }),
    webhook_delivery_concurrency: setting(count.min(1).max(1000), 64, {
      description: 'Maximum number of deliveries that one broker process sends in parallel.',
      unit: 'deliveries',
      hot: true,
    }),
    webhook_delivery_per_subscription: setting(count.min(1).max(1000), 4, {
      description: 'Maximum number of deliveries in progress per webhook subscription.',
      unit: 'deliveries',
      hot: true,
    }),
    webhook_cleanup_interval_seconds: setting(seconds, 3600, {
      description: 'Interval of the task that deletes old deliveries.',
      hot: true,
    }),
    webhook_cleanup_retention_days: setting(days.positive(), 7, {
      description: 'Time after which finished deliveries are deleted.',
      hot: true,
    }),
    webhook_allowed_cidrs: setting(z.array(z.string()), [], {
      description: 'Private networks that webhook receivers may be in.',
      hot: true,
    }),
    webhook_allowed_hosts: setting(z.array(z.string()), [], {
      description: 'Host names of webhook receivers that may resolve to private addresses. *.example.com matches all subdomains.',
      hot: true,
    }),
    telemetry_retention_seconds: setting(seconds.max(21_600), 21_600, {
      description: 'Time for which Kubernetes events and log lines of stacks are stored.',
      hot: true,
    }),
    manifest_validation: setting(z.enum(['lenient', 'strict']), 'lenient', {
      description: 'lenient: documents that are not Kubernetes objects cause a warning. strict: they are rejected.',
      hot: true,
    }),
    pipelines_url: optional(httpUrl, {
      description: 'Address of the hooks of `brokkr pipelines`, to which requests about pipelines are forwarded. Without it, they get 503.',
    }),
    pipelines_key: secret({
      description:
        'Key that signs forwarded requests, 32 characters or more; one of `pipelines.vouching_keys`. Required with broker.pipelines_url.',
      schema: z.string().min(32),
    }),
    dataflow_preview_url: optional(httpUrl, {
      description: 'Address of `brokkr dataflow preview`, to which previews of flows are forwarded. Without it, they get 503.',
    }),
    forward_seconds: setting(seconds.min(1).max(300), 25, {
      description: 'Time limit of a forwarded request, 1 to 300 seconds; at most limits.handler_seconds takes effect.',
      hot: true,
    }),
    ...workOrderSettings,
    ...diagnosticSettings,
    ...loginSettings,
  },
  sockets: {
    ping_seconds: setting(seconds.positive(), 20, { description: 'Interval at which WebSocket clients are pinged.' }),
    dead_seconds: setting(seconds.positive(), 60, {
      description: 'Time without an answer or progress after which a WebSocket client is disconnected.',
    }),
    control_frames: setting(count.min(1).max(100_000), 64, {
      description: 'Maximum number of control frames that wait for one WebSocket client.',
      unit: 'frames',
    }),
    telemetry_frames: setting(count.min(1).max(100_000), 1024, {
      description: 'Maximum number of telemetry frames that wait for one WebSocket client, or of one agent to be stored; more are dropped.',
      unit: 'frames',
    }),
    telemetry_batch_rows: setting(count.min(1).max(1000), 500, {
      description: 'Number of telemetry rows that are stored at once.',
      unit: 'rows',
    }),
    telemetry_batch_ms: setting(z.number().positive().max(60_000), 200, {
      description: 'Maximum delay before telemetry of agent sockets is stored.',
    }),
    connections_max: setting(count.min(1).max(1_000_000), 20_000, {
      description: 'Maximum number of open WebSockets of one broker process.',
      unit: 'connections',
    }),
  },
  feed: {
    listen_url: secret({ description: 'Connection URL for LISTEN, if database.url goes through a proxy that does not support it.' }),
    poll_ms: setting(z.number().positive().max(3_600_000), 1000, {
      description: 'Interval at which the change log is read without a notification.',
    }),
    ping_seconds: setting(seconds, 15, { description: 'Interval of ping frames on streams.' }),
    stale_seconds: setting(span, [5, 60], {
      description:
        'Age of the last complete read of the change log after which new streams are refused (first value) and open streams are closed (second value).',
    }),
    stream_life_seconds: setting(span, [1800, 3600], {
      description: 'Range from which the lifetime of a stream is drawn; then the client reconnects.',
    }),
    queue_keys: setting(count, 2000, {
      description: 'Maximum number of frames queued on one stream; a stream beyond it is closed.',
      unit: 'frames',
    }),
    queue_bytes: setting(count, 4 * 1024 * 1024, {
      description: 'Maximum size of the frames queued on one stream; a stream beyond it is closed.',
    }),
    slow_seconds: setting(seconds, 30, { description: 'Time without progress after which a stream with queued frames is closed.' }),
    ring_rows: setting(count, 100_000, { description: 'Maximum number of change rows kept in memory for resuming streams.' }),
    ring_seconds: setting(seconds, 120, { description: 'Maximum age of change batches kept in memory for resuming streams.' }),
    inline_bytes: setting(count, 128 * 1024, {
      description: 'Maximum size of a manifest that is sent inside a frame; agents fetch larger ones.',
    }),
    listener_test_seconds: setting(span, [15, 5], {
      description: 'Interval between two tests of the LISTEN connection, and the time limit of a test.',
    }),
    streams_max: setting(count, 20_000, { description: 'Maximum number of open streams of one broker process.', unit: 'streams' }),
    snapshots: setting(count.min(1), 16, { description: 'Maximum number of snapshots that are sent in parallel.', unit: 'snapshots' }),
    snapshots_waiting: setting(count, 2000, {
      description: 'Maximum number of streams that wait for a snapshot; further ones are rejected with 503.',
      unit: 'streams',
    }),
    dead_seconds: setting(seconds, 45, {
      description: 'Time without acknowledged data after which a stream counts as half-open and is closed.',
    }),
    far_end_check_seconds: setting(seconds, 10, { description: 'Interval between two checks for half-open streams.' }),
    drain_per_second: setting(count.min(1), 1000, {
      description: 'Number of streams closed per second when the broker stops.',
      unit: 'streams per second',
    }),
    canary_seconds: setting(seconds, 10, { description: 'Interval of canary rows, which measure the delay of the change feed.' }),
    recheck_seconds: setting(seconds, 300, { description: 'Interval at which the credentials of open streams are verified again.' }),
    snapshot_connections: setting(count.min(1).max(100), 8, {
      description: 'Maximum number of database connections that read snapshots.',
      unit: 'connections',
    }),
    loop_delay_ms: setting(z.number().positive().max(60_000), 100, { description: 'Event-loop delay above which new snapshots wait.' }),
    memory_share: setting(z.number().positive().max(1), 0.8, {
      description: 'Share of the memory limit above which new streams are rejected.',
      unit: 'share of 1',
    }),
    retention_hours: setting(z.number().positive().max(8760), 24, {
      description: 'Time for which the change log is stored; older cursors get a snapshot.',
      hot: true,
    }),
  },
  tasks: taskTable,
  ...acceptedSections,
  pak: { ...pakSettings, ...acceptedSections.pak },
  telemetry: { ...traceSettings, broker: traceOverrides, ...acceptedSections.telemetry },
}
export type BrokerConfig = ConfigOf<typeof brokerTable>

const watcherTable = {
  BROKKR_CONFIG_WATCHER_ENABLED: setting(z.boolean(), true, { description: 'Reloads the configuration file when it changes.' }),
  BROKKR_CONFIG_WATCHER_DEBOUNCE_SECONDS: setting(seconds, 5, {
    description: 'Time without a further change after which the configuration file is reloaded.',
  }),
}
export interface WatcherSettings {
  readonly isEnabled: boolean
  readonly debounceSeconds: number
}

/** They decide about the reload of the file, so the file cannot contain them. */
export function readWatcherSettings(env: NodeJS.ProcessEnv): WatcherSettings {
  const values = readEnvironment(watcherTable, env)
  return { isEnabled: values.BROKKR_CONFIG_WATCHER_ENABLED, debounceSeconds: values.BROKKR_CONFIG_WATCHER_DEBOUNCE_SECONDS }
}

type Problems = { path: string; problem: string }[]

export const checkBrokerConfig = (config: BrokerConfig): Problems => [
  ...hostProblems(config),
  ...tlsProblems(config),
  ...networkProblems('server.trusted_proxies', config.server.trusted_proxies),
  ...networkProblems('broker.webhook_allowed_cidrs', config.broker.webhook_allowed_cidrs),
  ...keyProblems(config),
  ...sampleProblems(config),
  ...pipelinesProblems(config),
  ...pakProblems(config.pak),
]

/** Plain HTTP stays on loopback, unless a proxy terminates TLS and the operator says so. */
function hostProblems({ server }: BrokerConfig): Problems {
  const { host } = server
  if (host === null || isTls(server) || ['127.0.0.1', '::1', 'localhost'].includes(host)) return []
  return [
    {
      path: 'server.host',
      problem: `${host} would serve plain HTTP to the network: set server.tls_cert_file and server.tls_key_file, or put TLS in front and set server.tls_terminated_elsewhere = true, or leave it at 127.0.0.1`,
    },
  ]
}

function tlsProblems({ server }: BrokerConfig): Problems {
  const { tls_cert_file: cert, tls_key_file: key } = server
  if ((cert === null) === (key === null)) return []
  const missing = cert === null ? 'server.tls_cert_file' : 'server.tls_key_file'
  return [{ path: missing, problem: 'is missing: set both the certificate and its key' }]
}

function networkProblems(path: string, networks: readonly string[]): Problems {
  const wrong = networks.filter((network) => !isCidr(network))
  return wrong.map((network) => ({ path, problem: `${network} is neither an address nor a network such as 10.0.0.0/8` }))
}

function keyProblems({ broker }: BrokerConfig): Problems {
  const { encryption_key: key, webhook_encryption_key: older } = broker
  if (key === null && older === null)
    return [
      {
        path: 'broker.encryption_key',
        problem:
          'is missing: manifests contain secrets and are stored encrypted. Set broker.encryption_key_file (a missing file is created) and keep a copy of it',
      },
    ]
  if (key === null || older === null || key.equals(older)) return []
  return [{ path: 'broker.webhook_encryption_key', problem: 'differs from broker.encryption_key, of which it is the older name: keep one' }]
}

function sampleProblems({ broker }: BrokerConfig): Problems {
  if (broker.pak_hash === null || broker.allow_sample_pak || !isSampleHash(broker.pak_hash)) return []
  const problem = 'is the hash of a published sample PAK: use a PAK of your own, or leave it empty and the broker creates one'
  return [{ path: 'broker.pak_hash', problem }]
}

function pipelinesProblems({ broker }: BrokerConfig): Problems {
  if (broker.pipelines_url === null || broker.pipelines_key !== null) return []
  return [
    { path: 'broker.pipelines_key', problem: 'is missing: `brokkr pipelines` accepts only requests signed with one of its vouching keys' },
  ]
}

/** Whether browsers and agents reach it by TLS, its own or that of a proxy. */
export const isTls = (server: BrokerConfig['server']): boolean => server.tls_terminated_elsewhere || server.tls_cert_file !== null

export const listenHost = ({ server }: BrokerConfig): string => server.host ?? (isTls(server) ? '0.0.0.0' : '127.0.0.1')

export const toTlsFiles = ({ server }: BrokerConfig): { certFile: string; keyFile: string } | null =>
  server.tls_cert_file === null || server.tls_key_file === null ? null : { certFile: server.tls_cert_file, keyFile: server.tls_key_file }
