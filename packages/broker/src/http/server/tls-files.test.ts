// The broker's own TLS: what it takes, what it refuses, and that a renewed certificate is used without a restart.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openRaw } from './raw-http.fixture.ts'
import { paks, startTestServer, type TestServer } from './server.fixture.ts'
import { readTlsFiles, type TlsMaterial, watchTlsFiles } from './tls-files.ts'

const folder = mkdtempSync(join(tmpdir(), 'brokkr-tls-'))
const files = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') }
const authority = await issueCertificate({ commonName: 'authority', isCa: true })
const renew = async (commonName: string) => {
  const issued = await issueCertificate({ commonName, hosts: ['127.0.0.1'], issuer: authority })
  writeFileSync(files.certFile, issued.cert)
  writeFileSync(files.keyFile, issued.key)
  return issued
}

let server: TestServer
beforeAll(async () => {
  await renew('first')
  server = await startTestServer({ tls: files })
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

function get(path: string, headers: Record<string, string> = {}): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
  const options = { host: '127.0.0.1', port: server.http.port, path, headers, ca: authority.cert, agent: false }
  const sent = request(options, (response) => {
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => void (text += chunk))
    response.once('end', () => resolve({ status: response.statusCode ?? 0, text }))
  })
  sent.once('error', reject).end()
  return promise
}

test('requests are served over TLS to clients that trust the certificate', async () => {
  expect(await get('/healthz')).toEqual({ status: 200, text: 'OK' })
  expect((await get('/api/v1/agents', { authorization: paks.admin })).status).toBe(200)
  expect((await get('/api/v1/agents')).status).toBe(401)
})

test('plain HTTP and old TLS versions are refused', async () => {
  const plain = await openRaw(server.http.port)
  plain.send(`GET /api/v1/agents HTTP/1.1\r\nHost: x\r\nAuthorization: ${paks.admin}\r\n\r\n`)
  await plain.closed
  expect(plain.received()).not.toContain('HTTP/1.1 200')
  const old = connect({
    host: '127.0.0.1',
    port: server.http.port,
    ca: authority.cert,
    minVersion: 'TLSv1',
    maxVersion: 'TLSv1.1',
    ciphers: 'DEFAULT:@SECLEVEL=0',
  })
  const outcome = await new Promise((resolve) =>
    old.once('secureConnect', () => resolve('connected')).once('error', () => resolve('refused')),
  )
  expect(outcome).toBe('refused')
  old.destroy()
})

test('a renewed certificate is used without a restart; invalid files are logged once', async () => {
  const clock = manualClock()
  const lines: string[] = []
  const log = createLog({ name: 'test', destination: { write: (line) => lines.push(line) } })
  const used: TlsMaterial[] = []
  const following = watchTlsFiles({ clock, log }, files, (material) => used.push(material))
  await clock.advance(60_000)
  expect(used).toEqual([])
  const issued = await renew('second')
  await clock.advance(10_000)
  expect(used).toEqual([{ cert: issued.cert, key: issued.key }])
  writeFileSync(files.keyFile, (await issueCertificate({ commonName: 'foreign' })).key)
  await clock.advance(60_000)
  expect([used.length, lines.filter((line) => line.includes('previous one in use')).length]).toEqual([1, 1])
  expect(lines.join()).not.toContain('PRIVATE KEY')
  following.stop()
  await renew('third')
  await clock.advance(60_000)
  expect(used.length).toBe(1)
})

test('a missing TLS file or a mismatched key is named at the start', async () => {
  await renew('first')
  expect(() => readTlsFiles({ ...files, certFile: join(folder, 'none.pem') })).toThrow(/server\.tls_cert_file .*none\.pem cannot be read/)
  const other = join(folder, 'other.pem')
  writeFileSync(other, (await issueCertificate({ commonName: 'other' })).key)
  expect(() => readTlsFiles({ ...files, keyFile: other })).toThrow(/cannot be used together/)
})
