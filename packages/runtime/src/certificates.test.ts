import { createPrivateKey, createPublicKey, sign, verify, X509Certificate } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Certificate, type CertificateRequest, generateSigningKeys, issueCertificate, readExpiryMs } from './certificates.ts'

const authority = await issueCertificate({ commonName: 'test-ca', isCa: true })
const serverCertificate = await issueCertificate({
  commonName: 'server',
  issuer: authority,
  usages: ['server'],
  hosts: ['localhost', 'kubernetes.default.svc', '127.0.0.1', '10.96.0.1'],
})

test('a CA certificate is marked as CA and self-signed', () => {
  const parsed = new X509Certificate(authority.cert)
  expect(parsed.ca).toBe(true)
  expect(parsed.checkIssued(parsed)).toBe(true)
  expect(parsed.verify(createPublicKey(authority.key))).toBe(true)
})

test('a server certificate has its hosts, usage and issuer', () => {
  const parsed = new X509Certificate(serverCertificate.cert)
  expect(parsed.ca).toBe(false)
  expect(parsed.checkIssued(new X509Certificate(authority.cert))).toBe(true)
  expect(parsed.subjectAltName).toBe('DNS:localhost, DNS:kubernetes.default.svc, IP Address:127.0.0.1, IP Address:10.96.0.1')
  expect(parsed.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1'])
})

test('a client certificate has its organizations before its common name', async () => {
  const client = await issueCertificate({
    commonName: 'admin',
    organizations: ['system:masters', 'second'],
    issuer: authority,
    usages: ['client'],
  })
  expect(new X509Certificate(client.cert).subject).toBe('O=system:masters\nO=second\nCN=admin')
})

test.each([
  ['before 2050', '2020-01-02T03:04:05Z', '2049-12-31T23:59:59Z'],
  ['after 2050', '2050-01-01T00:00:00Z', '2120-06-07T08:09:10Z'],
])('validity %s is encoded exactly', async (_when, from, until) => {
  const parsed = new X509Certificate(
    (await issueCertificate({ commonName: 'dated', notBefore: new Date(from), notAfter: new Date(until) })).cert,
  )
  expect([parsed.validFromDate.toISOString(), parsed.validToDate.toISOString()]).toEqual(
    [from, until].map((at) => new Date(at).toISOString()),
  )
})

test('serial numbers are unique', async () => {
  const certificates = await Promise.all(Array.from({ length: 20 }, () => issueCertificate({ commonName: 'x' })))
  expect(new Set(certificates.map(({ cert }) => new X509Certificate(cert).serialNumber)).size).toBe(20)
})

test('a certificate for an IPv6 address matches that address', async () => {
  await fc.assert(
    fc.asyncProperty(fc.ipV6(), async (ip) => {
      fc.pre(!ip.includes('.'))
      const parsed = new X509Certificate((await issueCertificate({ commonName: 'v6', hosts: [ip] })).cert)
      expect(parsed.checkIP(ip)).toBeDefined()
    }),
    { numRuns: 50 },
  )
})

test.each(['a b', 'fe80::1%eth0', ''])('%j is refused as a host', async (host) => {
  await expect(issueCertificate({ commonName: 'x', hosts: [host] })).rejects.toThrow('neither a DNS name nor an IP address')
})

test('server and client certificates of one CA complete a mutual TLS handshake', async () => {
  const client = await issueCertificate({ commonName: 'some-client', issuer: authority, usages: ['client'] })
  expect(await handshake({ server: serverCertificate, ca: authority, client })).toBe('some-client')
})

test.each<[string, Certificate, Certificate, string]>([
  ['has expired', await issue({ notBefore: daysFromNow(-3), notAfter: daysFromNow(-1) }), authority, 'CERT_HAS_EXPIRED'],
  ['is not yet valid', await issue({ notBefore: daysFromNow(1) }), authority, 'CERT_NOT_YET_VALID'],
  [
    'is from another CA',
    serverCertificate,
    await issueCertificate({ commonName: 'other-ca', isCa: true }),
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  ],
  ['is for another address', await issue({ hosts: ['127.0.0.9'] }), authority, 'ERR_TLS_CERT_ALTNAME_INVALID'],
  ['is for clients', await issue({ usages: ['client'] }), authority, 'INVALID_PURPOSE'],
])('a server whose certificate %s is refused', async (_why, server, ca, code) => {
  await expect(handshake({ server, ca })).rejects.toMatchObject({ code })
})

test('the public signing key verifies signatures of the private one', () => {
  const keys = generateSigningKeys()
  const text = Buffer.from('token')
  expect(verify('sha256', text, createPublicKey(keys.publicPem), sign('sha256', text, createPrivateKey(keys.privatePem)))).toBe(true)
})

function issue(request: Partial<CertificateRequest>): Promise<Certificate> {
  return issueCertificate({ commonName: 'server', issuer: authority, usages: ['server'], hosts: ['127.0.0.1'], ...request })
}

test('a certificate of a CA with a Unicode name verifies', async () => {
  const [notBefore, notAfter] = [new Date('2026-01-01T00:00:00Z'), new Date('2026-01-02T00:00:00Z')]
  const ca = await issueCertificate({ commonName: 'Ünïcode CA', organizations: ['one', 'two'], isCa: true, notBefore, notAfter })
  const leaf = new X509Certificate((await issueCertificate({ commonName: 'leaf', issuer: ca, usages: ['client'] })).cert)
  const issuer = new X509Certificate(ca.cert)
  expect([leaf.checkIssued(issuer), leaf.verify(issuer.publicKey), issuer.ca, leaf.ca]).toEqual([true, true, true, false])
  expect(readExpiryMs(ca.cert)).toBe(notAfter.getTime())
})

function daysFromNow(days: number): Date {
  return new Date(Date.now() + days * 24 * 3_600_000)
}

/** Returns the client's common name as the server saw it; rejects with the client's reason for refusing the server. */
async function handshake(parts: { server: Certificate; ca: Certificate; client?: Certificate }): Promise<string> {
  const askForClient = parts.client !== undefined
  const server = createServer({
    cert: parts.server.cert,
    key: parts.server.key,
    ca: parts.ca.cert,
    requestCert: askForClient,
    rejectUnauthorized: askForClient,
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const seen = new Promise<string>((resolve) =>
    server.on('secureConnection', (socket: TLSSocket) => resolve(String(socket.getPeerCertificate().subject?.CN ?? ''))),
  )
  const { port } = server.address() as AddressInfo
  const own = parts.client === undefined ? {} : { cert: parts.client.cert, key: parts.client.key }
  const socket = connect({ host: '127.0.0.1', port, ca: parts.ca.cert, ...own })
  try {
    await new Promise<void>((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject))
    return await seen
  } finally {
    socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}
