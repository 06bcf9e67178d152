import { once } from 'node:events'
import { createServer as createHttp } from 'node:http'
import { createServer as createHttps } from 'node:https'
import tls, { type TlsOptions } from 'node:tls'
import { afterEach, expect, test, vi } from 'vitest'
import { type Certificate, issueCertificate } from '../certificates.ts'
import { closeAll, httpServer, innerListener, listen, onClose, outbound, outside, outsideHost } from '../test-parts/outbound-servers.ts'
import { checkUrl } from './check-request.ts'
import type { Lookup } from './connect.ts'

afterEach(closeAll)

const inward = (port: number): string[] => [
  `http://127.0.0.1:${port}/`,
  `http://2130706433:${port}/`,
  `http://0x7f.1:${port}/`,
  `http://0177.0.0.1:${port}/`,
  `http://127.1:${port}/`,
  `http://１２７.0.0.1:${port}/`,
  `http://0.0.0.0:${port}/`,
  `http://[::1]:${port}/`,
  `http://[::]:${port}/`,
  `http://[::ffff:127.0.0.1]:${port}/`,
  `http://[::ffff:169.254.169.254]:${port}/`,
  `http://[64:ff9b::7f00:1]:${port}/`,
  `http://[2002:7f00:1::]:${port}/`,
  `http://169.254.169.254:${port}/latest/meta-data`,
  `http://10.0.0.1:${port}/`,
  `http://100.64.0.1:${port}/`,
  `http://[fd00::1]:${port}/`,
  `http://localhost:${port}/`,
  `http://a.localhost:${port}/`,
  `http://127.0.0.1.:${port}/`,
]

test('[X21] every spelling of an internal address is rejected at connect and by the check', async () => {
  const inner = await innerListener()
  const client = outbound()
  for (const url of inward(inner.port)) {
    const sent = client.request({ method: 'POST', url, body: '{}' })
    await expect(sent).rejects.toMatchObject({ name: 'Terminal', code: 'address_refused' })
    expect(() => checkUrl(url)).toThrow(/may not be reached/)
  }
  expect(inner.counts.connections).toBe(0)
})

test.each([
  'file:///etc/passwd',
  'ftp://example.com/',
  'gopher://example.com/',
  'data:text/plain,x',
  'javascript:alert(1)',
  'unix:/run/x.sock',
  'ws://example.com/',
  'nonsense',
  '',
  '//h/x',
  'http://',
  `https://h/${'x'.repeat(9_000)}`,
  'http://user:pw@example.com/',
])('[X21] %.40s is refused before anything is looked up', async (url) => {
  const lookup = vi.fn<Lookup>()
  await expect(outbound({}, lookup).request({ url })).rejects.toMatchObject({ name: 'Terminal', code: 'url_refused' })
  expect(lookup).not.toHaveBeenCalled()
})

test('[X21] a connection uses the checked address although the name resolves differently later', async () => {
  const reached: string[] = []
  const port = await listen(
    createHttp((_request, response) => response.end(reached.push('outside').toString())),
    outsideHost,
  )
  const inner = await innerListener('127.0.0.1', port)
  let looks = 0
  const client = outbound({ allow: outside }, () => Promise.resolve([looks++ === 0 ? outsideHost : '127.0.0.1']))
  const answer = await client.request({ url: `http://rebind.example:${port}/`, headers: { 'x-first': '1' } })
  expect(answer.status).toBe(200)
  expect({ looks, reached }).toEqual({ looks: 1, reached: ['outside'] })
  const fresh = outbound({ allow: outside }, () => Promise.resolve([looks++ === 0 ? outsideHost : '127.0.0.1']))
  await expect(fresh.request({ url: `http://rebind.example:${port}/` })).rejects.toMatchObject({ code: 'address_refused' })
  expect(inner.counts.connections).toBe(0)
})

test('[X21] one private address among several refuses the name', async () => {
  const inner = await innerListener()
  const client = outbound({}, () => Promise.resolve(['8.8.8.8', '127.0.0.1']))
  await expect(client.request({ url: `http://mixed.example:${inner.port}/` })).rejects.toMatchObject({ code: 'address_refused' })
  expect(inner.counts.connections).toBe(0)
})

test('[X21] a redirect to an internal address is returned and not followed', async () => {
  const inner = await innerListener()
  const url = await httpServer((_request, response) => response.writeHead(302, { location: `http://127.0.0.1:${inner.port}/` }).end())
  const answer = await outbound({ allow: outside }).request({ url })
  expect(answer).toMatchObject({ status: 302, headers: { location: `http://127.0.0.1:${inner.port}/` } })
  expect(inner.counts.connections).toBe(0)
})

test('[X21] proxies of the environment are not used', async () => {
  const proxy = await innerListener()
  for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY'])
    vi.stubEnv(name, name.endsWith('PROXY') && name.startsWith('NODE') ? '1' : `http://127.0.0.1:${proxy.port}`)
  onClose(() => vi.unstubAllEnvs())
  const url = await httpServer((_request, response) => response.end('direct'))
  expect(String((await outbound({ allow: outside }).request({ url })).body)).toBe('direct')
  expect(proxy.counts.connections).toBe(0)
})

const authority = await issueCertificate({ commonName: 'Test authority', isCa: true })
const stranger = await issueCertificate({ commonName: 'Other authority', isCa: true })
const host = 'hook.example'

/** Valid from and until that many days from now. */
function certificateFor([from, until]: [number, number]) {
  const day = (days: number) => new Date(Date.now() + days * 86_400_000)
  return issueCertificate({ commonName: host, hosts: [host], issuer: authority, notBefore: day(from), notAfter: day(until) })
}

/** What a TLS server has read of requests, after decryption. */
async function tlsServer(issuing: Promise<Certificate>, options: TlsOptions = {}) {
  const seen = { requestBytes: 0 }
  const server = tls.createServer({ ...(await issuing), ...options }, (socket) => {
    socket.on('data', (chunk) => (seen.requestBytes += chunk.length)).on('error', () => {})
  })
  server.on('tlsClientError', () => {})
  return { seen, port: await listen(server, outsideHost) }
}

/** Everything that could be set around us to make TLS weaker. */
function weakenNode(): void {
  const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = tls
  const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {}) // Node's own, about the variable
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
  Object.assign(tls, { DEFAULT_MIN_VERSION: 'TLSv1', DEFAULT_CIPHERS: 'DEFAULT@SECLEVEL=0' })
  onClose(() => {
    Object.assign(tls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS })
    vi.unstubAllEnvs()
    warnings.mockRestore()
  })
}

const oldTls = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const

test.each([
  ['self-signed', () => tlsServer(issueCertificate({ commonName: host, hosts: [host] }))],
  ['from an unknown authority', () => tlsServer(issueCertificate({ commonName: host, hosts: [host], issuer: stranger }))],
  ['for another host', () => tlsServer(issueCertificate({ commonName: host, hosts: ['other.example'], issuer: authority }))],
  ['for the address instead of the name', () => tlsServer(issueCertificate({ commonName: 'x', hosts: [outsideHost], issuer: authority }))],
  ['expired', () => tlsServer(certificateFor([-2, -1]))],
  ['not yet valid', () => tlsServer(certificateFor([1, 2]))],
  ['good, but over TLS 1.1', () => tlsServer(issueCertificate({ commonName: host, hosts: [host], issuer: authority }), oldTls)],
])('[X17] a certificate that is %s fails the request, also if the environment disables checks', async (_what, start) => {
  const server = await start()
  weakenNode()
  const client = outbound({ allow: outside, ca: [authority.cert] }, () => Promise.resolve([outsideHost]))
  const sent = client.request({
    method: 'POST',
    url: `https://${host}:${server.port}/`,
    headers: { authorization: 'Bearer x' },
    body: '{}',
  })
  await expect(sent).rejects.toMatchObject({ name: 'Terminal', code: 'tls_refused' })
  expect(server.seen.requestBytes).toBe(0)
})

test('[X17] the TLS 1.1 test server serves clients that accept TLS 1.1', async () => {
  const { port } = await tlsServer(issueCertificate({ commonName: host, hosts: [host], issuer: authority }), oldTls)
  const socket = tls.connect({ ...oldTls, host: outsideHost, port, servername: host, ca: authority.cert })
  await once(socket, 'secureConnect')
  expect(socket.getProtocol()).toBe('TLSv1.1')
  socket.destroy()
})

test.each([
  ['a name', host, [host]],
  ['an address', outsideHost, [outsideHost]],
])('[X17] a good certificate for %s is accepted', async (_what, name, hosts) => {
  const certificate = await issueCertificate({ commonName: name, hosts, issuer: authority })
  const server = createHttps({ cert: certificate.cert, key: certificate.key }, (_request, response) => response.end('hello'))
  const port = await listen(server, outsideHost)
  const client = outbound({ allow: outside, ca: [authority.cert] }, () => Promise.resolve([outsideHost]))
  expect(String((await client.request({ url: `https://${name}:${port}/` })).body)).toBe('hello')
})
