import { X509Certificate } from 'node:crypto'
import { readExpiryMs } from '@brokkr/runtime/certificates.ts'
import { expect, test } from 'vitest'
import { buildCaBundle, rotateCertificates, type WebhookCertificates } from './webhook-certificate.ts'

const hosts = ['hook.brokkr.svc', 'hook.brokkr.svc.cluster.local', '127.0.0.1']
const start = Date.UTC(2026, 0, 1)
const DAY_MS = 86_400_000

const casOf = (bundle: string): X509Certificate[] =>
  (bundle.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g) ?? []).map((pem) => new X509Certificate(pem))

test('for twenty years the served certificate is valid and its CA published a minute before', { timeout: 60_000 }, async () => {
  let current: WebhookCertificates | undefined
  let published: { atMs: number; bundle: string }[] = []
  const authorities = new Set<string>()
  let leaves = 0
  for (let nowMs = start; nowMs < start + 20 * 365 * DAY_MS; nowMs += 15 * DAY_MS) {
    // The loop runs every ten seconds; only a few rounds after each jump matter.
    for (const afterMs of [0, 10_000, 61_000, 71_000, 2 * DAY_MS]) {
      const before = current
      current = await rotateCertificates(current, hosts, nowMs + afterMs)
      if (current.leaf !== before?.leaf) leaves++
      const leaf = new X509Certificate(current.leaf.cert)
      expect(Date.parse(leaf.validFrom)).toBeLessThan(nowMs + afterMs)
      if (afterMs > 0) expect(readExpiryMs(current.leaf.cert)).toBeGreaterThan(nowMs + afterMs)
      expect(leaf.subjectAltName).toBe('DNS:hook.brokkr.svc, DNS:hook.brokkr.svc.cluster.local, IP Address:127.0.0.1')
      published = [...published, { atMs: nowMs + afterMs, bundle: buildCaBundle(current) }].slice(-5)
      const old = published.findLast(({ atMs }) => atMs <= nowMs + afterMs - 60_000) ?? published[0]
      expect(casOf(old?.bundle ?? '').some((ca) => leaf.checkIssued(ca) && leaf.verify(ca.publicKey))).toBe(true)
      authorities.add(current.ca.cert)
    }
  }
  expect(authorities.size).toBeGreaterThanOrEqual(6)
  expect(leaves).toBeGreaterThan(100)
})

test('a certificate is renewed when it is due or its host names change', async () => {
  const first = await rotateCertificates(undefined, hosts, start)
  expect(await rotateCertificates(first, hosts, start + 59 * DAY_MS)).toBe(first)
  const renewed = await rotateCertificates(first, hosts, start + 61 * DAY_MS)
  expect([renewed.ca === first.ca, renewed.leaf === first.leaf]).toEqual([true, false])
  expect((await rotateCertificates(first, [...hosts, 'other.svc'], start)).leaf).not.toBe(first.leaf)
})

test('an old CA leaves the bundle after a day', async () => {
  const first = await rotateCertificates(undefined, hosts, start)
  const due = start + 4 * 365 * DAY_MS
  const published = await rotateCertificates(first, hosts, due)
  expect(casOf(buildCaBundle(published))).toHaveLength(2)
  const used = await rotateCertificates(published, hosts, due + 60_000)
  expect([used.ca.cert === first.ca.cert, used.oldCa?.cert === first.ca.cert]).toEqual([false, true])
  expect(casOf(buildCaBundle(await rotateCertificates(used, hosts, due + 60_000 + DAY_MS)))).toHaveLength(1)
})
