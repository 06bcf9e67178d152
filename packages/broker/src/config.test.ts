// What the settings refuse before anything is opened, each with what to do about it.
import { loadConfig } from '@brokkr/runtime/config.ts'
import { expect, test } from 'vitest'
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
  ['a certificate without its key', { BROKKR__SERVER__TLS_CERT_FILE: '/c.pem' }, /server\.tls_key_file.*given together/s],
  ['a key without its certificate', { BROKKR__SERVER__TLS_KEY_FILE: '/k.pem' }, /server\.tls_cert_file.*given together/s],
  [
    'a proxy that is no address',
    { BROKKR__SERVER__TRUSTED_PROXIES: '10.0.0.0/8,loopback' },
    /server\.trusted_proxies.*loopback is neither/s,
  ],
  ['an origin with a path', { BROKKR__CORS__ALLOWED_ORIGINS: 'https://a.test/x' }, /cors\.allowed_origins.*without a path/s],
])('%s stops the start', async (_, env, text) => {
  await expect(load(env)).rejects.toThrow(text)
})

test('by default no foreign origin may call, and sizes and times are the documented ones', async () => {
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
    event_loop_delay_ms: 200,
    pool_wait_seconds: 5,
  })
  expect([server.port, server.shutdown_seconds]).toEqual([3000, 30])
})
