import { createPrivateKey, createPublicKey, sign, verify, X509Certificate } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Certificate, issueCertificate, issueSigningKeys } from './pki.ts'

const authority = issueCertificate({ subject: { cn: 'test-ca' }, ca: true })
const serverCertificate = issueCertificate({
  subject: { cn: 'server' },
  issuer: authority,
  usage: ['server'],
  dns: ['localhost', 'kubernetes.default.svc'],
  ips: ['127.0.0.1', '10.96.0.1'],
})

test('an authority says that it is one and signs itself', () => {
  const parsed = new X509Certificate(authority.certPem)
  expect(parsed.ca).toBe(true)
  expect(parsed.checkIssued(parsed)).toBe(true)
  expect(parsed.verify(createPublicKey(authority.keyPem))).toBe(true)
})

test('a leaf carries its names, its usage and its issuer', () => {
  const parsed = new X509Certificate(serverCertificate.certPem)
  expect(parsed.ca).toBe(false)
  expect(parsed.checkIssued(new X509Certificate(authority.certPem))).toBe(true)
  expect(parsed.subjectAltName).toBe('DNS:localhost, DNS:kubernetes.default.svc, IP Address:127.0.0.1, IP Address:10.96.0.1')
  expect(parsed.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1'])
})

test('organisations of a client come before its name, as Kubernetes reads groups and user', () => {
  const client = issueCertificate({ subject: { cn: 'admin', o: ['system:masters', 'second'] }, issuer: authority, usage: ['client'] })
  expect(new X509Certificate(client.certPem).subject).toBe('O=system:masters\nO=second\nCN=admin')
})

test.each([
  ['inside the first form of dates', '2020-01-02T03:04:05Z', '2049-12-31T23:59:59Z'],
  ['beyond it', '2050-01-01T00:00:00Z', '2120-06-07T08:09:10Z'],
])('dates %s are written as asked', (_where, from, until) => {
  const parsed = new X509Certificate(
    issueCertificate({ subject: { cn: 'dated' }, notBefore: new Date(from), notAfter: new Date(until) }).certPem,
  )
  expect([parsed.validFromDate.toISOString(), parsed.validToDate.toISOString()]).toEqual(
    [from, until].map((at) => new Date(at).toISOString()),
  )
})

test('serial numbers differ, so that a store of certificates can tell them apart', () => {
  const serials = Array.from({ length: 20 }, () => new X509Certificate(issueCertificate({ subject: { cn: 'x' } }).certPem).serialNumber)
  expect(new Set(serials).size).toBe(20)
})

test('any IPv6 address comes back from the certificate as the same address', () => {
  fc.assert(
    fc.property(fc.ipV6(), (ip) => {
      fc.pre(!ip.includes('.'))
      const parsed = new X509Certificate(issueCertificate({ subject: { cn: 'v6' }, ips: [ip] }).certPem)
      expect(parsed.checkIP(ip)).toBeDefined()
    }),
    { numRuns: 50 },
  )
})

test.each(['300.1.1.1', 'localhost', 'fe80::1%eth0', ''])('%j is refused as an address', (ip) => {
  expect(() => issueCertificate({ subject: { cn: 'x' }, ips: [ip] })).toThrow('no IP address')
})

test('a client that knows the authority completes a handshake with both sides proven', async () => {
  const client = issueCertificate({ subject: { cn: 'somebody' }, issuer: authority, usage: ['client'] })
  expect(await handshake({ server: serverCertificate, ca: authority, client })).toBe('somebody')
})

test.each<[string, Certificate, Certificate, string]>([
  ['has ended', issue({ notBefore: daysFromNow(-3), notAfter: daysFromNow(-1) }), authority, 'CERT_HAS_EXPIRED'],
  ['has not begun', issue({ notBefore: daysFromNow(1) }), authority, 'CERT_NOT_YET_VALID'],
  ['is of a stranger', serverCertificate, issueCertificate({ subject: { cn: 'other-ca' }, ca: true }), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  ['names another address', issue({ ips: ['127.0.0.9'] }), authority, 'ERR_TLS_CERT_ALTNAME_INVALID'],
  ['is for clients', issue({ usage: ['client'] }), authority, 'INVALID_PURPOSE'],
])('a server whose certificate %s is refused', async (_why, server, ca, code) => {
  await expect(handshake({ server, ca })).rejects.toMatchObject({ code })
})

test('what the private signing key signs the public one accepts', () => {
  const keys = issueSigningKeys()
  const text = Buffer.from('token')
  expect(verify('sha256', text, createPublicKey(keys.publicPem), sign('sha256', text, createPrivateKey(keys.privatePem)))).toBe(true)
})

function issue(request: Partial<Parameters<typeof issueCertificate>[0]>): Certificate {
  return issueCertificate({ subject: { cn: 'server' }, issuer: authority, usage: ['server'], ips: ['127.0.0.1'], ...request })
}

function daysFromNow(days: number): Date {
  return new Date(Date.now() + days * 24 * 3_600_000)
}

/** The client's name as the server saw it; rejects with the client's reason for refusing the server. */
async function handshake(parts: { server: Certificate; ca: Certificate; client?: Certificate }): Promise<string> {
  const askForClient = parts.client !== undefined
  const server = createServer({
    cert: parts.server.certPem,
    key: parts.server.keyPem,
    ca: parts.ca.certPem,
    requestCert: askForClient,
    rejectUnauthorized: askForClient,
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const seen = new Promise<string>((resolve) =>
    server.on('secureConnection', (socket: TLSSocket) => resolve(String(socket.getPeerCertificate().subject?.CN ?? ''))),
  )
  const { port } = server.address() as AddressInfo
  const own = parts.client === undefined ? {} : { cert: parts.client.certPem, key: parts.client.keyPem }
  const socket = connect({ host: '127.0.0.1', port, ca: parts.ca.certPem, ...own })
  try {
    await new Promise<void>((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject))
    return await seen
  } finally {
    socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}
