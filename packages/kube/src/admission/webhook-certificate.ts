// Rotates the certificates of a webhook: an own CA with a life of five years, a serving certificate with ninety days, both renewed after two
// thirds of their life. A new CA is published beside the old one before it signs a served certificate, and the old CA stays published for
// a day, so an API server never meets a certificate that it does not trust.
import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { type Certificate, issueCertificate } from '@brokkr/runtime/certificates.ts'

export interface WebhookCertificates {
  ca: Certificate
  leaf: Certificate
  /** Published, not yet used for signing. */
  nextCa?: { pair: Certificate; sinceMs: number }
  /** No longer used for signing, still published. */
  oldCa?: { cert: string; sinceMs: number }
}

const DAY_MS = 86_400_000
const CA_LIFE_MS = 5 * 365 * DAY_MS
const LEAF_LIFE_MS = 90 * DAY_MS
const NEXT_CA_PUBLISHED_MS = 60_000
const OLD_CA_PUBLISHED_MS = DAY_MS
/** Tolerates API servers whose clocks are behind. */
const CLOCK_SKEW_MS = 3_600_000

/** Returns the next state, or the same object if no renewal is due. */
export async function rotateCertificates(
  current: WebhookCertificates | undefined,
  hosts: readonly string[],
  nowMs: number,
): Promise<WebhookCertificates> {
  if (!current) {
    const ca = await issueCa(nowMs)
    return { ca, leaf: await issueLeaf(ca, hosts, nowMs) }
  }
  const { ca, nextCa, oldCa } = current
  if (oldCa && nowMs - oldCa.sinceMs >= OLD_CA_PUBLISHED_MS) {
    const { oldCa: _oldCa, ...rest } = current
    return rest
  }
  if (nextCa && nowMs - nextCa.sinceMs >= NEXT_CA_PUBLISHED_MS)
    return { ca: nextCa.pair, leaf: await issueLeaf(nextCa.pair, hosts, nowMs), oldCa: { cert: ca.cert, sinceMs: nowMs } }
  if (!nextCa && isDue(ca.cert, nowMs)) return { ...current, nextCa: { pair: await issueCa(nowMs), sinceMs: nowMs } }
  if (isDue(current.leaf.cert, nowMs) || !hasHosts(current.leaf.cert, hosts)) return { ...current, leaf: await issueLeaf(ca, hosts, nowMs) }
  return current
}

/** All CAs that may have signed a served certificate. */
export const buildCaBundle = (certificates: WebhookCertificates): string =>
  [certificates.ca.cert, certificates.nextCa?.pair.cert, certificates.oldCa?.cert].filter((cert) => cert !== undefined).join('')

const issueCa = (nowMs: number): Promise<Certificate> =>
  issueCertificate({
    commonName: 'brokkr webhook CA',
    isCa: true,
    notBefore: new Date(nowMs - CLOCK_SKEW_MS),
    notAfter: new Date(nowMs + CA_LIFE_MS),
  })

const issueLeaf = (issuer: Certificate, hosts: readonly string[], nowMs: number): Promise<Certificate> =>
  issueCertificate({
    commonName: hosts[0] ?? 'webhook',
    issuer,
    usages: ['server'],
    hosts,
    notBefore: new Date(nowMs - CLOCK_SKEW_MS),
    notAfter: new Date(nowMs + LEAF_LIFE_MS),
  })

function isDue(cert: string, nowMs: number): boolean {
  const { validFrom, validTo } = new X509Certificate(cert)
  const [fromMs, toMs] = [Date.parse(validFrom), Date.parse(validTo)]
  return nowMs >= fromMs + ((toMs - fromMs) * 2) / 3
}

const hasHosts = (cert: string, hosts: readonly string[]): boolean => {
  const certificate = new X509Certificate(cert)
  return hosts.every((host) => (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined)
}
