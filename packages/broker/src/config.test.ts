// What the settings refuse before anything is opened, each with what to do about it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { listSettings } from '@brokkr/runtime/config/settings.ts'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { listSettingsWithoutEffect } from './accepted-settings.ts'
import { brokerTable, checkBrokerConfig, isTls, listenHost } from './config.ts'

const load = async (env: Record<string, string> = {}) => {
  const all = { DATABASE_URL: 'postgres://x', BROKKR__BROKER__ENCRYPTION_KEY: 'a'.repeat(64), ...env }
  return (await loadConfig({ table: brokerTable, env: all, flags: {}, check: checkBrokerConfig })).value
}
const tls = { BROKKR__SERVER__TLS_CERT_FILE: '/c.pem', BROKKR__SERVER__TLS_KEY_FILE: '/k.pem' }
const elsewhere = { BROKKR__SERVER__TLS_TERMINATED_ELSEWHERE: 'true' }

test.each<[string, Record<string, string>, string, boolean]>([
  ['plain HTTP', {}, '127.0.0.1', false],
  ['TLS of its own', tls, '0.0.0.0', true],
  ['TLS in front of it', elsewhere, '0.0.0.0', true],
  ['TLS of its own on one address', { ...tls, BROKKR__SERVER__HOST: '10.0.0.1' }, '10.0.0.1', true],
  ['plain HTTP by name', { BROKKR__SERVER__HOST: 'localhost' }, 'localhost', false],
])('with %s it listens where it may', async (_, env, host, hasTls) => {
  const config = await load(env)
  expect([listenHost(config), isTls(config.server)]).toEqual([host, hasTls])
})

test.each<[string, Record<string, string>, RegExp]>([
  ['plain HTTP to the network', { BROKKR__SERVER__HOST: '0.0.0.0' }, /server\.host.*plain HTTP.*server\.tls_terminated_elsewhere = true/s],
  ['a certificate without its key', { BROKKR__SERVER__TLS_CERT_FILE: '/c.pem' }, /server\.tls_key_file.*set both/s],
  ['a key without its certificate', { BROKKR__SERVER__TLS_KEY_FILE: '/k.pem' }, /server\.tls_cert_file.*set both/s],
  [
    'a proxy that is no address',
    { BROKKR__SERVER__TRUSTED_PROXIES: '10.0.0.0/8,loopback' },
    /server\.trusted_proxies.*loopback is neither/s,
  ],
  ['an origin with a path', { BROKKR__CORS__ALLOWED_ORIGINS: 'https://a.test/x' }, /cors\.allowed_origins.*without a path/s],
])('%s stops the start', async (_, env, text) => {
  await expect(load(env)).rejects.toThrow(text)
})

test('the defaults allow no other origin and have the documented limits', async () => {
  const { cors, limits, server } = await load()
  expect(cors).toEqual({
    allowed_origins: [],
    allowed_methods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    allowed_headers: ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Generator-Key'],
    max_age_seconds: 3600,
  })
  expect(limits).toEqual({
    body_bytes: 2_097_152,
    object_body_bytes: 8_388_608,
    header_seconds: 10,
    body_seconds: 30,
    handler_seconds: 30,
    answer_stall_seconds: 30,
    event_loop_delay_ms: 200,
    pool_wait_seconds: 5,
    calls_in_progress: 2000,
  })
  expect([server.port, server.shutdown_seconds]).toEqual([3000, 30])
})

const documentedKeys = `
  database.url database.schema database.migrate_url database.pool_size server.host server.port server.tls_terminated_elsewhere server.tls_cert_file
  server.tls_key_file server.trusted_proxies server.shutdown_seconds limits.body_bytes limits.object_body_bytes log.level log.format metrics.port
  broker.pak_hash broker.admin_pak_file broker.allow_sample_pak broker.encryption_key broker.encryption_keys_previous broker.webhook_encryption_key
  broker.auth_cache_ttl_seconds broker.agent_self_registration broker.agent_image broker.pipelines_url broker.pipelines_key
  broker.dataflow_preview_url broker.session_seconds broker.session_idle_seconds broker.login_link_seconds broker.admin_pak_file_seconds
  broker.idempotency_seconds limits.header_seconds limits.body_seconds limits.handler_seconds broker.diagnostic_cleanup_interval_seconds
  broker.diagnostic_max_age_hours broker.webhook_delivery_interval_seconds broker.webhook_delivery_batch_size broker.webhook_delivery_concurrency
  broker.webhook_delivery_per_subscription broker.webhook_cleanup_interval_seconds broker.webhook_cleanup_retention_days
  broker.webhook_allowed_cidrs broker.webhook_allowed_hosts broker.work_order_maintenance_interval_seconds broker.audit_log_retention_days
  broker.audit_cleanup_interval_seconds broker.agent_events_retention_days broker.work_order_log_retention_days
  broker.agent_disconnect_after_seconds broker.telemetry_retention_seconds broker.manifest_validation broker.audit_batch_size
  broker.audit_flush_ms pak.prefix pak.short_token_prefix pak.short_token_length pak.long_token_length pak.rng pak.digest cors.allowed_origins
  cors.allowed_methods cors.allowed_headers cors.max_age_seconds telemetry.enabled telemetry.otlp_endpoint telemetry.service_name
  telemetry.sampling_rate telemetry.broker.enabled feed.stream_life_seconds feed.dead_seconds feed.ping_seconds feed.poll_ms`
  .trim()
  .split(/\s+/)

/** Every key that the first version's default file has. */
const v1File = `
[database]
url = "postgres://brokkr:brokkr@localhost:5433/brokkr"
[log]
level = "debug"
format = "text"
[broker]
pak_hash = "${'b'.repeat(64)}"
diagnostic_cleanup_interval_seconds = 900
diagnostic_max_age_hours = 2
webhook_delivery_interval_seconds = 5
webhook_delivery_batch_size = 50
webhook_cleanup_retention_days = 7
auth_cache_ttl_seconds = 60
[pak]
prefix = "brokkr"
rng = "osrng"
digest = 8
short_token_length = 8
long_token_length = 24
short_token_prefix = "BR"
[cors]
allowed_origins = ["http://localhost:3001"]
allowed_methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS"]
allowed_headers = ["Authorization", "Content-Type"]
max_age_seconds = 3600
[agent]
broker_url = "http://localhost:3000"
[telemetry]
enabled = false
otlp_endpoint = "http://localhost:4317"
service_name = "brokkr"
sampling_rate = 0.1
[telemetry.broker]
service_name = "brokkr-broker"
[telemetry.agent]
service_name = "brokkr-agent"
`
/** Variables that its chart sets. */
const v1Variables = {
  BROKKR__LOG__FORMAT: 'text',
  BROKKR__TELEMETRY__ENABLED: 'true',
  BROKKR__TELEMETRY__OTLP_ENDPOINT: 'http://otel:4317',
  BROKKR__TELEMETRY__SERVICE_NAME: 'brokkr-broker',
  BROKKR__TELEMETRY__SAMPLING_RATE: '0.5',
  BROKKR__BROKER__DIAGNOSTIC_CLEANUP_INTERVAL_SECONDS: '900',
  BROKKR__BROKER__DIAGNOSTIC_MAX_AGE_HOURS: '2',
}
async function loadV1(env: Record<string, string>, file = v1File) {
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-v1-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  await writeFile(join(dir, 'brokkr.toml'), file)
  return loadConfig({
    table: brokerTable,
    env: { BROKKR_CONFIG_FILE: join(dir, 'brokkr.toml'), ...env },
    ignoredSections: ['agent', 'cli'],
    check: checkBrokerConfig,
  })
}

test('the configuration of a v1 installation is accepted, and settings without effect are listed', async () => {
  const config = await loadV1({ ...v1Variables, BROKKR__BROKER__WEBHOOK_ENCRYPTION_KEY: 'a'.repeat(64) })
  expect(config.value.log).toEqual({ level: 'debug', format: 'pretty' })
  expect(listSettingsWithoutEffect(config)).toEqual(['telemetry.agent.service_name'])
})

test.each<[string, Record<string, string>, RegExp]>([
  ['a prefix with an underscore', { BROKKR__PAK__PREFIX: 'a_b' }, /pak\.prefix.*letters and digits/s],
  ['a short part without random characters', { BROKKR__PAK__SHORT_TOKEN_PREFIX: 'ABCDEF' }, /pak\.short_token_length.*at least 10/s],
  ['a long part that can be guessed', { BROKKR__PAK__LONG_TOKEN_LENGTH: '8' }, /pak\.long_token_length/s],
  ['a sign-in link for a day', { BROKKR__BROKER__LOGIN_LINK_SECONDS: '86400' }, /broker\.login_link_seconds/s],
])('%s stops the start', async (_, env, text) => {
  await expect(load(env)).rejects.toThrow(text)
})

test('every number has a maximum', () => {
  const hasMaximum = (schema: unknown): boolean => {
    const { type, maximum, exclusiveMaximum, anyOf, items, prefixItems } = schema as Record<string, unknown>
    const parts = [...((anyOf ?? []) as unknown[]), ...((prefixItems ?? []) as unknown[]), ...(items === undefined ? [] : [items])]
    const isNumber = type === 'number' || type === 'integer'
    return (!isNumber || maximum !== undefined || exclusiveMaximum !== undefined) && parts.every(hasMaximum)
  }
  const unbounded = listSettings(brokerTable).filter(({ setting: { schema } }) => !hasMaximum(z.toJSONSchema(schema, { io: 'input' })))
  expect(unbounded.map(({ path }) => path)).toEqual([])
})

test('every documented setting exists', () => {
  const known = new Set(listSettings(brokerTable).map(({ path }) => path))
  expect(documentedKeys.filter((key) => !known.has(key))).toEqual([])
})

test('a missing encryption key is listed beside all other problems', async () => {
  const file = `${v1File}\n[unknown]\nkey = 1\n`
  const text = await loadV1({ BROKKR__SERVER__PORT: 'x', BROKKR__SERVER__HOST: '0.0.0.0' }, file).catch((error: Error) => error.message)
  for (const path of ['unknown', 'server.port', 'server.host', 'broker.encryption_key: is missing']) expect(text).toContain(path)
  // Also beside a required setting that is missing.
  const bare = await loadV1({}, '').catch((error: Error) => error.message)
  for (const path of ['database.url', 'broker.encryption_key: is missing']) expect(bare).toContain(path)
})
