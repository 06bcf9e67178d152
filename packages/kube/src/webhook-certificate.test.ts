import { X509Certificate } from 'node:crypto'
import { expect, test } from 'vitest'
import { issueCertificate, validUntilMs } from './certificate.ts'
import { caBundleOf, rotateCertificates, type WebhookCertificates } from './webhook-certificate.ts'

const hosts = ['hook.brokkr.svc', 'hook.brokkr.svc.cluster.local', '127.0.0.1']
const start = Date.UTC(2026, 0, 1)
const DAY_MS = 86_400_000

const casOf = (bundle: string): X509Certificate[] =>
  (bundle.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g) ?? []).map((pem) => new X509Certificate(pem))

test('over twenty years the served certificate is always valid, for our names, and from a CA that was announced a minute before', () => {
  let known: WebhookCertificates | undefined
  let announced: { atMs: number; bundle: string }[] = []
  const authorities = new Set<string>()
  let leaves = 0
  for (let nowMs = start; nowMs < start + 20 * 365 * DAY_MS; nowMs += 15 * DAY_MS) {
    // Rounds come every ten seconds; only a few of them after each jump matter.
    for (const afterMs of [0, 10_000, 61_000, 71_000, 2 * DAY_MS]) {
      const before = known
      known = rotateCertificates(known, hosts, nowMs + afterMs)
      if (known.leaf !== before?.leaf) leaves++
      const leaf = new X509Certificate(known.leaf.cert)
      expect(Date.parse(leaf.validFrom)).toBeLessThan(nowMs + afterMs)
      if (afterMs > 0) expect(validUntilMs(known.leaf.cert)).toBeGreaterThan(nowMs + afterMs)
      expect(leaf.subjectAltName).toBe('DNS:hook.brokkr.svc, DNS:hook.brokkr.svc.cluster.local, IP Address:127.0.0.1')
      announced = [...announced, { atMs: nowMs + afterMs, bundle: caBundleOf(known) }].slice(-5)
      const old = announced.findLast(({ atMs }) => atMs <= nowMs + afterMs - 60_000) ?? announced[0]
      expect(casOf(old?.bundle ?? '').some((ca) => leaf.checkIssued(ca) && leaf.verify(ca.publicKey))).toBe(true)
      authorities.add(known.ca.cert)
    }
  }
  expect(authorities.size).toBeGreaterThanOrEqual(6)
  expect(leaves).toBeGreaterThan(100)
})

test('nothing is made anew while nothing is due, and other names make a new certificate', () => {
  const first = rotateCertificates(undefined, hosts, start)
  expect(rotateCertificates(first, hosts, start + 59 * DAY_MS)).toBe(first)
  const renewed = rotateCertificates(first, hosts, start + 61 * DAY_MS)
  expect([renewed.ca === first.ca, renewed.leaf === first.leaf]).toEqual([true, false])
  expect(rotateCertificates(first, [...hosts, 'other.svc'], start).leaf).not.toBe(first.leaf)
})

test('an old CA leaves the bundle after a day', () => {
  const first = rotateCertificates(undefined, hosts, start)
  const due = start + 4 * 365 * DAY_MS
  const announced = rotateCertificates(first, hosts, due)
  expect(casOf(caBundleOf(announced))).toHaveLength(2)
  const used = rotateCertificates(announced, hosts, due + 60_000)
  expect([used.ca.cert === first.ca.cert, used.oldCa?.cert === first.ca.cert]).toEqual([false, true])
  expect(casOf(caBundleOf(rotateCertificates(used, hosts, due + 60_000 + DAY_MS)))).toHaveLength(1)
})

test('a CA and what it issues hold together, whatever their names', () => {
  const times = { notBeforeMs: start, notAfterMs: start + DAY_MS }
  const ca = issueCertificate({ commonName: 'Ünïcode CA', organizations: ['one', 'two'], ca: true, ...times })
  const leaf = new X509Certificate(issueCertificate({ commonName: 'leaf', issuer: ca, usage: 'client', ...times }).cert)
  const authority = new X509Certificate(ca.cert)
  expect([leaf.checkIssued(authority), leaf.verify(authority.publicKey), authority.ca, leaf.ca]).toEqual([true, true, true, false])
  expect(validUntilMs(ca.cert)).toBe(start + DAY_MS)
})
