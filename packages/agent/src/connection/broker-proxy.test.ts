import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { expect, test } from 'vitest'
import { connectProxy } from '../test-parts/connect-proxy.ts'
import { closeAfter } from '../test-parts/scripted-broker.ts'
import { openBrokerHttp } from './broker-http.ts'
import { findProxy, type ProxyEnv } from './broker-proxy.ts'

const proxy = 'http://proxy.test:3128'
const https = 'https://broker.example.com'

test.each<[string, string, ProxyEnv, string | null]>([
  ['none', https, {}, null],
  ['HTTPS_PROXY', https, { HTTPS_PROXY: proxy }, 'proxy.test:3128'],
  ['https_proxy before HTTPS_PROXY', https, { https_proxy: proxy, HTTPS_PROXY: 'http://other.test' }, 'proxy.test:3128'],
  ['ALL_PROXY', https, { ALL_PROXY: proxy }, 'proxy.test:3128'],
  ['HTTPS_PROXY before ALL_PROXY', https, { ALL_PROXY: 'http://other.test', HTTPS_PROXY: proxy }, 'proxy.test:3128'],
  ['HTTP_PROXY for https', https, { HTTP_PROXY: proxy }, null],
  ['HTTP_PROXY for http', 'http://broker.example.com', { HTTP_PROXY: proxy }, 'proxy.test:3128'],
  ['an empty one', https, { HTTPS_PROXY: ' ' }, null],
  ['this machine', 'https://127.0.0.1:3000', { HTTPS_PROXY: proxy }, null],
  ['this machine, six', 'https://[::1]:3000', { HTTPS_PROXY: proxy }, null],
  ['this machine by name', 'https://localhost:3000', { HTTPS_PROXY: proxy }, null],
  ['NO_PROXY with the host', https, { HTTPS_PROXY: proxy, NO_PROXY: 'a.test, broker.example.com' }, null],
  ['NO_PROXY with its domain', https, { HTTPS_PROXY: proxy, NO_PROXY: '.example.com' }, null],
  ['NO_PROXY with a wildcard', https, { HTTPS_PROXY: proxy, no_proxy: '*.EXAMPLE.com' }, null],
  ['NO_PROXY with everything', https, { HTTPS_PROXY: proxy, NO_PROXY: '*' }, null],
  ['NO_PROXY with its port', https, { HTTPS_PROXY: proxy, NO_PROXY: 'example.com:443' }, null],
  ['NO_PROXY with another port', https, { HTTPS_PROXY: proxy, NO_PROXY: 'example.com:8443' }, 'proxy.test:3128'],
  ['NO_PROXY with a name that only ends alike', https, { HTTPS_PROXY: proxy, NO_PROXY: 'ker.example.com' }, 'proxy.test:3128'],
  ['NO_PROXY with its network', 'https://10.1.2.3', { HTTPS_PROXY: proxy, NO_PROXY: '10.0.0.0/8' }, null],
  ['NO_PROXY with another network', 'https://10.1.2.3', { HTTPS_PROXY: proxy, NO_PROXY: '10.2.0.0/16' }, 'proxy.test:3128'],
  ['NO_PROXY with its address', 'https://[2001:db8::1]', { HTTPS_PROXY: proxy, NO_PROXY: '[2001:db8::1]:443' }, null],
])('the proxy on the way to the broker: %s', (_what, broker, env, expected) => {
  expect(findProxy(new URL(broker), env)?.host ?? null).toBe(expected)
})

test('an unsupported proxy URL is rejected without showing its password', () => {
  for (const value of ['socks5://u:canary@proxy.test', 'u:canary@proxy', 'canary'])
    expect(() => findProxy(new URL(https), { HTTPS_PROXY: value })).toThrow(/^HTTPS_PROXY is not (?!.*canary)/)
})

/** A broker by TLS under a name that only a proxy resolves. */
async function tlsBroker(hosts: string[]) {
  const ca = await issueCertificate({ commonName: 'ca', isCa: true })
  const leaf = await issueCertificate({ commonName: 'broker', issuer: ca, usages: ['server'], hosts })
  const keys: (string | undefined)[] = []
  const server = createServer(leaf, (request, response) => {
    keys.push(request.headers.authorization)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end('{}')
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  closeAfter(() => {
    server.closeAllConnections()
    return new Promise((resolve) => void server.close(() => resolve()))
  })
  const caFile = join(mkdtempSync(join(tmpdir(), 'brokkr-ca-')), 'ca.pem')
  writeFileSync(caFile, ca.cert)
  return { keys, caFile, port: () => (server.address() as AddressInfo).port }
}
async function through(env: ProxyEnv, broker: { caFile: string }, timeoutMs = 5_000) {
  const options = { url: 'https://broker.test', userAgent: 'brokkr-agent/test', timeoutMs, serverName: null, env, ...broker }
  const http = await openBrokerHttp({ ...options, pak: () => 'brokkr_BRtest_key' })
  closeAfter(() => http.close())
  return () => http.client.listAgents({})
}

test('requests use the CONNECT tunnel, and the proxy sees neither PAK nor content', async () => {
  const broker = await tlsBroker(['broker.test'])
  const between = await connectProxy(broker.port, { credentials: 'user:pass word' })
  const address = new URL(between.url)
  const ask = await through({ HTTPS_PROXY: `http://user:pass%20word@${address.host}` }, broker)
  for (let n = 0; n < 20; n++) await ask()
  expect(broker.keys).toEqual(Array.from({ length: 20 }, () => 'Bearer brokkr_BRtest_key'))
  expect(new Set(between.connects.map(({ to }) => to))).toEqual(new Set(['broker.test:443']))
  // Tunnels are kept alive and used again.
  expect(between.connects.length).toBeLessThan(10)
  expect(between.connects[0]?.headers.authorization).toBeUndefined()
  expect(between.plain).toEqual([])
})

test('a certificate for another name is rejected through a proxy before the PAK is sent', async () => {
  const broker = await tlsBroker(['other.test'])
  const between = await connectProxy(broker.port)
  await expect((await through({ ALL_PROXY: between.url }, broker))()).rejects.toThrow(/altnames/)
  expect([between.connects.length > 0, broker.keys]).toEqual([true, []])
})

test('a refused CONNECT request is reported as an error of the proxy', async () => {
  const broker = await tlsBroker(['broker.test'])
  const between = await connectProxy(broker.port, { credentials: 'user:password' })
  await expect((await through({ HTTPS_PROXY: between.url }, broker))()).rejects.toThrow('407')
  expect(broker.keys).toEqual([])
})

test('a proxy is used again after a CONNECT request that timed out', async () => {
  const broker = await tlsBroker(['broker.test'])
  let isHung = true
  const between = await connectProxy(broker.port, { isHung: () => isHung })
  const ask = await through({ HTTPS_PROXY: between.url }, broker, 1_000)
  const failure = await ask().then(
    () => null,
    (error: unknown) => error,
  )
  expect(failure).toBeInstanceOf(Error)
  isHung = false
  await expect.poll(() => ask().then(Boolean, () => false), { timeout: 10_000 }).toBe(true)
})
