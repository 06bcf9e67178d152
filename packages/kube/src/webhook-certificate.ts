// The certificates of a webhook over time: a CA of our own for five years, a serving certificate for ninety days, both renewed at two
// thirds of their life. A new CA is announced beside the old one before the first certificate of it is served, and the old one stays
// announced for a day, so that no API server ever meets a certificate it does not trust. Pure, but for the random keys.
import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { issueCertificate, type KeyPair } from './certificate.ts'

export interface WebhookCertificates {
  ca: KeyPair
  leaf: KeyPair
  /** Announced already, not yet used. */
  nextCa?: { pair: KeyPair; sinceMs: number }
  /** Not used any more, still announced. */
  oldCa?: { cert: string; sinceMs: number }
}

const DAY_MS = 86_400_000
const CA_MS = 5 * 365 * DAY_MS
const LEAF_MS = 90 * DAY_MS
const ANNOUNCE_MS = 60_000
const FAREWELL_MS = DAY_MS
/** Clocks of API servers may be behind ours. */
const EARLIER_MS = 3_600_000

/** The next state; the very same object when nothing is due. */
export function rotateCertificates(known: WebhookCertificates | undefined, hosts: readonly string[], nowMs: number): WebhookCertificates {
  if (!known) {
    const ca = newCa(nowMs)
    return { ca, leaf: newLeaf(ca, hosts, nowMs) }
  }
  const { ca, nextCa, oldCa } = known
  if (oldCa && nowMs - oldCa.sinceMs >= FAREWELL_MS) {
    const { oldCa: _gone, ...rest } = known
    return rest
  }
  if (nextCa && nowMs - nextCa.sinceMs >= ANNOUNCE_MS)
    return { ca: nextCa.pair, leaf: newLeaf(nextCa.pair, hosts, nowMs), oldCa: { cert: ca.cert, sinceMs: nowMs } }
  if (!nextCa && isDue(ca.cert, nowMs)) return { ...known, nextCa: { pair: newCa(nowMs), sinceMs: nowMs } }
  if (isDue(known.leaf.cert, nowMs) || !covers(known.leaf.cert, hosts)) return { ...known, leaf: newLeaf(ca, hosts, nowMs) }
  return known
}

/** Every CA that a served certificate may come from. */
export const caBundleOf = (certificates: WebhookCertificates): string =>
  [certificates.ca.cert, certificates.nextCa?.pair.cert, certificates.oldCa?.cert].filter((cert) => cert !== undefined).join('')

const newCa = (nowMs: number): KeyPair =>
  issueCertificate({ commonName: 'brokkr webhook CA', ca: true, notBeforeMs: nowMs - EARLIER_MS, notAfterMs: nowMs + CA_MS })

const newLeaf = (issuer: KeyPair, hosts: readonly string[], nowMs: number): KeyPair =>
  issueCertificate({
    commonName: hosts[0] ?? 'webhook',
    issuer,
    usage: 'server',
    hosts,
    notBeforeMs: nowMs - EARLIER_MS,
    notAfterMs: nowMs + LEAF_MS,
  })

function isDue(cert: string, nowMs: number): boolean {
  const { validFrom, validTo } = new X509Certificate(cert)
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)]
  return nowMs >= from + ((to - from) * 2) / 3
}

const covers = (cert: string, hosts: readonly string[]): boolean => {
  const certificate = new X509Certificate(cert)
  return hosts.every((host) => (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined)
}
