// Issues X.509 certificates with ECDSA P-256 keys: CAs, servers and clients. Used for the admission webhook, the practice cluster and tests.
// oxlint-disable-next-line import/no-unassigned-import -- a polyfill without exports
import 'reflect-metadata' // @peculiar/x509 needs this polyfill before it is loaded
import { createHash, createPrivateKey, generateKeyPairSync, KeyObject, randomBytes, webcrypto, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import * as x509 from '@peculiar/x509'

/** A certificate with its private key, both as PEM; can be passed to `tls.createServer`. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

export interface CertificateRequest {
  readonly commonName: string
  readonly organizations?: readonly string[]
  /** Signs the certificate; without an issuer it is self-signed. */
  readonly issuer?: Certificate
  readonly isCa?: boolean
  readonly usages?: readonly ('server' | 'client')[]
  /** DNS names and IP addresses. */
  readonly hosts?: readonly string[]
  /** Default: one hour ago, so that a clock that is slightly behind accepts it. */
  readonly notBefore?: Date
  /** Default: in ten years. */
  readonly notAfter?: Date
}

const HOUR_MS = 3_600_000
const TEN_YEARS_MS = 3650 * 24 * HOUR_MS
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

export async function issueCertificate(request: CertificateRequest): Promise<Certificate> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const issuer = request.issuer && {
    name: new x509.X509Certificate(request.issuer.cert).subjectName,
    key: await importKey(request.issuer.key),
  }
  const subject = toName(request)
  const certificate = await x509.X509CertificateGenerator.create({
    // The first byte keeps the number positive and its length constant.
    serialNumber: `01${randomBytes(15).toString('hex')}`,
    subject,
    issuer: issuer?.name ?? subject,
    notBefore: request.notBefore ?? new Date(Date.now() - HOUR_MS),
    notAfter: request.notAfter ?? new Date(Date.now() + TEN_YEARS_MS),
    publicKey: keys.publicKey,
    signingKey: issuer?.key ?? keys.privateKey,
    signingAlgorithm: ALGORITHM,
    extensions: buildExtensions(request, keys.publicKey),
  })
  return {
    cert: `${certificate.toString('pem')}\n`,
    key: KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

const importKey = (pem: string): Promise<webcrypto.CryptoKey> =>
  webcrypto.subtle.importKey('pkcs8', createPrivateKey(pem).export({ type: 'pkcs8', format: 'der' }), ALGORITHM, false, ['sign'])

/** Kubernetes reads organizations as groups and the common name as the user. */
const toName = ({ commonName, organizations = [] }: CertificateRequest): x509.JsonName => [
  ...organizations.map((organization) => ({ O: [organization] })),
  { CN: [commonName] },
]

const USAGE_IDS = { server: x509.ExtendedKeyUsage.serverAuth, client: x509.ExtendedKeyUsage.clientAuth } as const

function buildExtensions(request: CertificateRequest, publicKey: webcrypto.CryptoKey): x509.Extension[] {
  const { isCa = false, usages = [], hosts = [], issuer } = request
  const flags = x509.KeyUsageFlags
  const extensions: x509.Extension[] = [
    new x509.BasicConstraintsExtension(isCa, undefined, true),
    new x509.KeyUsagesExtension(isCa ? flags.keyCertSign | flags.cRLSign : flags.digitalSignature, true),
    new x509.SubjectKeyIdentifierExtension(toKeyId(KeyObject.from(publicKey))),
  ]
  if (issuer) extensions.push(new x509.AuthorityKeyIdentifierExtension(toKeyId(new X509Certificate(issuer.cert).publicKey)))
  if (usages.length > 0) extensions.push(new x509.ExtendedKeyUsageExtension(usages.map((usage) => USAGE_IDS[usage])))
  if (hosts.length > 0) extensions.push(new x509.SubjectAlternativeNameExtension(hosts.map(toAlternativeName)))
  return extensions
}

function toAlternativeName(value: string): x509.JsonGeneralName {
  if (isIP(value) !== 0 && !value.includes('%')) return { type: 'ip', value }
  if (!/^[\w*.-]+$/.test(value)) throw new Error(`'${value}' is neither a DNS name nor an IP address`)
  return { type: 'dns', value }
}

/** SHA-1 is only an identifier that links a certificate to its issuer's key. */
const toKeyId = (key: KeyObject): string =>
  createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex')

export const readExpiryMs = (certPem: string): number => Date.parse(new X509Certificate(certPem).validTo)

/** Key pair with which an API server signs and verifies service account tokens. */
export function generateSigningKeys(): { privatePem: string; publicPem: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    privatePem: privateKey.export({ type: 'sec1', format: 'pem' }).toString(),
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  }
}
