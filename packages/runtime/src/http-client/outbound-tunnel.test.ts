import { createServer as createHttp } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { issueCertificate } from '../certificates.ts'
import { closeAll, listen, outbound } from '../test-parts/outbound-servers.ts'

afterEach(closeAll)

/** A target that only the proxy can resolve, and a proxy that needs a password. */
async function openProxied() {
  const authority = await issueCertificate({ commonName: 'proxied-authority', isCa: true })
  const leaf = await issueCertificate({ commonName: 'forge.example', hosts: ['forge.example'], issuer: authority })
  const port = await listen(createHttps(leaf, (_request, response) => response.end('answer')))
  const tunnels: string[] = []
  const proxy = createHttp()
  proxy.on('connect', (request, socket) => {
    tunnels.push(`${request.url} ${request.headers['proxy-authorization']}`)
    if (request.url !== 'forge.example:443') {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
      return
    }
    const onward = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      socket.pipe(onward).pipe(socket)
    })
    socket.on('error', () => onward.destroy())
    onward.on('error', () => socket.destroy())
  })
  const env = { HTTPS_PROXY: `http://user:pass@127.0.0.1:${await listen(proxy)}`, NO_PROXY: 'direct.example' }
  return { env, authority, tunnels }
}

test('a request uses the proxy of the environment with TLS inside the tunnel', async () => {
  const { env, authority, tunnels } = await openProxied()
  const { status, body } = await outbound({ env, ca: [authority.cert] }).request({ url: 'https://forge.example/x' })
  expect([status, body.toString()]).toEqual([200, 'answer'])
  expect(tunnels).toEqual([`forge.example:443 Basic ${Buffer.from('user:pass').toString('base64')}`])
})

test('a certificate of an unknown authority is refused inside the tunnel', async () => {
  const { env } = await openProxied()
  await expect(outbound({ env }).request({ url: 'https://forge.example/x' })).rejects.toMatchObject({ code: 'tls_refused' })
})

test('a refused tunnel is a failure that may be retried, and NO_PROXY is honored', async () => {
  const { env, tunnels } = await openProxied()
  await expect(outbound({ env }).request({ url: 'https://other.example/' })).rejects.toMatchObject({ name: 'Retryable' })
  const direct = outbound({ env }, () => Promise.resolve(['127.0.0.1']))
  await expect(direct.request({ url: 'https://direct.example/' })).rejects.toMatchObject({ code: 'address_refused' })
  expect(tunnels).toHaveLength(1)
})
