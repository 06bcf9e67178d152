// The broker's settings: one table with their defaults. What is marked hot takes effect at a reload.
import { randomBytes } from 'node:crypto'
import { isCidr } from '@brokkr/runtime/address.ts'
import { type ConfigOf, count, optional, port, requiredSecret, seconds, secret, secretList, setting } from '@brokkr/runtime/config-table.ts'
import { z } from 'zod'
import { isSampleHash } from './domain/sample-keys.ts'

const span = z.tuple([seconds, seconds])
const origin = z.string().regex(/^(\*|https?:\/\/[^/\s]+)$/, 'must be an origin such as https://console.example.com, without a path, or *')
const hexKey = z.string().regex(/^[0-9a-f]{64}$/i, 'must be 64 hex digits (32 bytes)')
const hexHash = z.string().regex(/^[0-9a-f]{64}$/, 'must be the 64 lower-case hex digits of a SHA-256')

/** tasks.<name>.every_seconds: another interval than the task's own. */
const everySeconds = () => ({ every_seconds: optional(seconds, { hot: true }) })
const taskTable = {
  'change-log-cleanup': everySeconds(),
  'agent-liveness': everySeconds(),
  'audit-cleanup': everySeconds(),
  housekeeping: everySeconds(),
  'target-verify': everySeconds(),
  'summary-verify': everySeconds(),
  'webhook-delivery': everySeconds(),
  'webhook-cleanup': everySeconds(),
}

export const brokerTable = {
  database: {
    url: requiredSecret({ env: ['DATABASE_URL'] }),
    schema: setting(z.string().regex(/^[A-Za-z][A-Za-z0-9_]{0,62}$/), 'public'),
    pool_size: setting(count.min(1).max(1000), 50),
  },
  server: {
    host: optional(z.string().min(1)),
    port: setting(port, 3000),
    tls_terminated_elsewhere: setting(z.boolean(), false),
    tls_cert_file: optional(z.string().min(1)),
    tls_key_file: optional(z.string().min(1)),
    trusted_proxies: setting(z.array(z.string()), []),
    shutdown_seconds: setting(seconds, 30),
  },
  limits: {
    body_bytes: setting(count, 2 * 1024 * 1024),
    object_body_bytes: setting(count, 8 * 1024 * 1024),
    header_seconds: setting(seconds, 10),
    body_seconds: setting(seconds, 30),
    handler_seconds: setting(seconds, 30),
    event_loop_delay_ms: setting(z.number().positive(), 200),
    pool_wait_seconds: setting(seconds, 5),
  },
  cors: {
    allowed_origins: setting(z.array(origin), [], { hot: true }),
    allowed_methods: setting(z.array(z.string()), ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], { hot: true }),
    allowed_headers: setting(z.array(z.string()), ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Generator-Key'], { hot: true }),
    max_age_seconds: setting(seconds, 3600, { hot: true }),
  },
  metrics: { port: optional(port) },
  log: {
    level: setting(z.enum(['trace', 'debug', 'info', 'warn', 'error']), 'info', { hot: true }),
    format: setting(z.enum(['json', 'pretty']), 'json'),
  },
  broker: {
    pak_hash: optional(hexHash),
    admin_pak_file: setting(z.string().min(1), '/tmp/brokkr-keys/key.txt'),
    admin_pak_file_seconds: setting(seconds, 3600),
    allow_sample_pak: setting(z.boolean(), false),
    encryption_key: secret({ schema: hexKey, make: () => randomBytes(32).toString('hex') }),
    webhook_encryption_key: secret({ schema: hexKey }),
    encryption_keys_previous: secretList({ schema: hexKey }),
    audit_log_retention_days: setting(z.number().nonnegative(), 90, { hot: true }),
    audit_cleanup_interval_seconds: setting(seconds, 86_400, { hot: true }),
    agent_events_retention_days: setting(z.number().nonnegative(), 0, { hot: true }),
    audit_batch_size: setting(count.min(1).max(1000), 100),
    audit_flush_ms: setting(z.number().positive(), 1000),
    idempotency_seconds: setting(seconds, 86_400),
    session_seconds: setting(seconds, 43_200),
    session_idle_seconds: setting(seconds, 3600),
    auth_cache_ttl_seconds: setting(seconds, 60, { hot: true }),
    /** Of the agent, for those who join by a manifest; best with its digest. */
    agent_image: optional(z.string().regex(/^[\w][\w.:/@-]{0,511}$/, 'must be an image such as ghcr.io/example/brokkr-agent@sha256:…')),
    agent_self_registration: setting(z.boolean(), false, { hot: true }),
    agent_disconnect_after_seconds: setting(seconds, 90, { hot: true }),
    webhook_delivery_interval_seconds: setting(seconds, 5, { hot: true }),
    webhook_delivery_batch_size: setting(count.min(1).max(1000), 50, { hot: true }),
    webhook_delivery_concurrency: setting(count.min(1).max(1000), 64, { hot: true }),
    webhook_delivery_per_subscription: setting(count.min(1).max(1000), 4, { hot: true }),
    webhook_cleanup_interval_seconds: setting(seconds, 3600, { hot: true }),
    webhook_cleanup_retention_days: setting(z.number().positive(), 7, { hot: true }),
    webhook_allowed_cidrs: setting(z.array(z.string()), [], { hot: true }),
    webhook_allowed_hosts: setting(z.array(z.string()), [], { hot: true }),
    manifest_validation: setting(z.enum(['lenient', 'strict']), 'lenient', { hot: true }),
  },
  feed: {
    listen_url: secret(),
    poll_ms: setting(z.number().positive(), 1000, { hot: true }),
    ping_seconds: setting(seconds, 15),
    stale_seconds: setting(span, [5, 60]),
    stream_life_seconds: setting(span, [1800, 3600]),
    queue_keys: setting(count, 2000),
    queue_bytes: setting(count, 4 * 1024 * 1024),
    slow_seconds: setting(seconds, 30),
    ring_rows: setting(count, 100_000),
    ring_seconds: setting(seconds, 120),
    inline_bytes: setting(count, 128 * 1024),
    listener_test_seconds: setting(span, [15, 5]),
    streams_max: setting(count, 20_000),
    snapshots: setting(count.min(1), 16),
    snapshots_waiting: setting(count, 2000),
    dead_seconds: setting(seconds, 45),
    far_end_check_seconds: setting(seconds, 10),
    drain_per_second: setting(count.min(1), 1000),
    canary_seconds: setting(seconds, 10),
    recheck_seconds: setting(seconds, 300),
    snapshot_connections: setting(count.min(1).max(100), 8),
    loop_delay_ms: setting(z.number().positive(), 100),
    memory_share: setting(z.number().positive().max(1), 0.8),
    retention_hours: setting(z.number().positive(), 24, { hot: true }),
  },
  tasks: taskTable,
}
export type BrokerConfig = ConfigOf<typeof brokerTable>

type Problems = { path: string; problem: string }[]

export const checkBrokerConfig = (config: BrokerConfig): Problems => [
  ...hostProblems(config),
  ...tlsProblems(config),
  ...networkProblems('server.trusted_proxies', config.server.trusted_proxies),
  ...networkProblems('broker.webhook_allowed_cidrs', config.broker.webhook_allowed_cidrs),
  ...keyProblems(config),
  ...sampleProblems(config),
]

/** Plain HTTP stays on loopback, unless somebody in front does TLS and the operator says so. */
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
  return [{ path: missing, problem: 'is missing: a certificate and its key are given together' }]
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
          'is missing: manifests hold secrets and are stored only sealed. Name a file in broker.encryption_key_file (it is made if it is not there) and keep a copy of it',
      },
    ]
  if (key === null || older === null || key.equals(older)) return []
  return [{ path: 'broker.webhook_encryption_key', problem: 'differs from broker.encryption_key, of which it is the older name: keep one' }]
}

function sampleProblems({ broker }: BrokerConfig): Problems {
  if (broker.pak_hash === null || broker.allow_sample_pak || !isSampleHash(broker.pak_hash)) return []
  const problem = 'is the hash of a published sample key, which everybody knows: make a key of your own, or leave it empty and one is made'
  return [{ path: 'broker.pak_hash', problem }]
}

/** Whether browsers and agents reach it by TLS, its own or that of somebody in front. */
export const isTls = (server: BrokerConfig['server']): boolean => server.tls_terminated_elsewhere || server.tls_cert_file !== null

export const listenHost = ({ server }: BrokerConfig): string => server.host ?? (isTls(server) ? '0.0.0.0' : '127.0.0.1')

export const tlsFilesOf = ({ server }: BrokerConfig): { certFile: string; keyFile: string } | null =>
  server.tls_cert_file === null || server.tls_key_file === null ? null : { certFile: server.tls_cert_file, keyFile: server.tls_key_file }
