// Issues X.509 certificates (ECDSA P-256) with node:crypto alone: a CA of our own and the serving certificate of a webhook.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import { bits, boolean, type Der, explicit, generalizedTime, implicit, integer, octets, oid, sequence, setOf, utf8 } from './der.ts'

export interface KeyPair {
  /** PEM. */
  cert: string
  key: string
}

export interface CertificateRequest {
  commonName: string
  organizations?: readonly string[]
  notBeforeMs: number
  notAfterMs: number
  /** Absent: signed by itself. */
  issuer?: KeyPair
  ca?: boolean
  usage?: 'server' | 'client'
  /** DNS names and IPv4 addresses. */
  hosts?: readonly string[]
}

export function issueCertificate(request: CertificateRequest): KeyPair {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const signer = request.issuer ? createPrivateKey(request.issuer.key) : pair.privateKey
  const body = bodyOf(request, pair.publicKey, createPublicKey(signer))
  const cert = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, signer)))
  return { cert: pemOf(cert), key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
}

export const validUntilMs = (cert: string): number => Date.parse(new X509Certificate(cert).validTo)

const ECDSA_SHA256 = sequence(oid('1.2.840.10045.4.3.2'))

function bodyOf(request: CertificateRequest, own: KeyObject, issuer: KeyObject): Der {
  return sequence(
    explicit(0, integer(Buffer.from([2]))),
    // The first byte keeps the number positive and of constant length.
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ECDSA_SHA256,
    request.issuer ? subjectOf(request.issuer.cert) : nameOf(request.commonName, request.organizations ?? []),
    sequence(generalizedTime(request.notBeforeMs), generalizedTime(request.notAfterMs)),
    nameOf(request.commonName, request.organizations ?? []),
    own.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...extensionsOf(request, own, issuer))),
  )
}

const nameOf = (commonName: string, organizations: readonly string[]): Der =>
  sequence(...organizations.map((name) => setOf(sequence(oid('2.5.4.10'), utf8(name)))), setOf(sequence(oid('2.5.4.3'), utf8(commonName))))

/** Our own CAs are named by common name and organizations alone, so their text form holds everything. */
function subjectOf(cert: string): Der {
  const lines = new X509Certificate(cert).subject.split('\n')
  const values = (key: string) => lines.filter((line) => line.startsWith(`${key}=`)).map((line) => line.slice(key.length + 1))
  return nameOf(values('CN')[0] ?? '', values('O'))
}

function extensionsOf(request: CertificateRequest, own: KeyObject, issuer: KeyObject): Der[] {
  const list = [
    extension('2.5.29.19', true, sequence(...(request.ca ? [boolean(true)] : []))),
    // keyCertSign and cRLSign for a CA, digitalSignature for the others.
    extension('2.5.29.15', true, request.ca ? bits(Buffer.from([0x06]), 1) : bits(Buffer.from([0x80]), 7)),
    extension('2.5.29.14', false, octets(keyId(own))),
    extension('2.5.29.35', false, sequence(implicit(0, keyId(issuer)))),
  ]
  if (request.usage)
    list.push(extension('2.5.29.37', false, sequence(oid(request.usage === 'server' ? '1.3.6.1.5.5.7.3.1' : '1.3.6.1.5.5.7.3.2'))))
  if (request.hosts?.length) list.push(extension('2.5.29.17', false, sequence(...request.hosts.map(hostOf))))
  return list
}

const extension = (id: string, critical: boolean, value: Der): Der => sequence(oid(id), ...(critical ? [boolean(true)] : []), octets(value))

const keyId = (key: KeyObject): Buffer =>
  createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()

const hostOf = (host: string): Der =>
  isIP(host) === 4 ? implicit(7, Buffer.from(host.split('.').map(Number))) : implicit(2, Buffer.from(host))

const pemOf = (der: Der): string =>
  `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`
