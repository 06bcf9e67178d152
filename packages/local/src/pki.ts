// Issues X.509 certificates (ECDSA P-256) with node:crypto alone: authorities, servers and clients of a practice cluster, and the
// wrong ones (expired, foreign issuer, other name) that tests of TLS failures need.
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import { bits, der, objectId, octets, pem, positiveInteger, sequence, setOf, time, utf8, yes } from './der.ts'

export type Subject = { cn: string; o?: readonly string[] }
export type Certificate = { subject: Subject; certPem: string; keyPem: string }
export type CertificateRequest = {
  subject: Subject
  /** Who signs; without one the certificate signs itself. */
  issuer?: Certificate
  ca?: boolean
  usage?: readonly ('server' | 'client')[]
  dns?: readonly string[]
  ips?: readonly string[]
  /** One hour ago unless told, so that a clock a little behind still accepts it. */
  notBefore?: Date
  /** Ten years from now unless told. */
  notAfter?: Date
}

const hourMs = 3_600_000
const tenYearsMs = 3650 * 24 * hourMs
const ecdsaWithSha256 = () => sequence(objectId('1.2.840.10045.4.3.2'))

export function issueCertificate(request: CertificateRequest): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const toSign = sequence(
    der(0xa0, positiveInteger(Buffer.from([2]))), // version 3
    positiveInteger(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256(),
    name(request.issuer?.subject ?? request.subject),
    sequence(time(request.notBefore ?? new Date(Date.now() - hourMs)), time(request.notAfter ?? new Date(Date.now() + tenYearsMs))),
    name(request.subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...extensions(request, publicKey))),
  )
  const signer = request.issuer === undefined ? privateKey : createPrivateKey(request.issuer.keyPem)
  const certificate = sequence(toSign, ecdsaWithSha256(), bits(sign('sha256', toSign, signer)))
  const keyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return { subject: request.subject, certPem: pem('CERTIFICATE', certificate), keyPem }
}

/** The pair with which an API server signs and checks the tokens of service accounts. */
export function issueSigningKeys(): { privatePem: string; publicPem: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    privatePem: privateKey.export({ type: 'sec1', format: 'pem' }).toString(),
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  }
}

function name({ cn, o = [] }: Subject): Buffer {
  const attribute = (id: string, value: string) => setOf(sequence(objectId(id), utf8(value)))
  return sequence(...o.map((value) => attribute('2.5.4.10', value)), attribute('2.5.4.3', cn))
}

function extensions(request: CertificateRequest, publicKey: KeyObject): Buffer[] {
  const { ca = false, usage = [], dns = [], ips = [], issuer } = request
  const names = [...dns.map((host) => der(0x82, Buffer.from(host))), ...ips.map((ip) => der(0x87, ipBytes(ip)))]
  const list = [
    extension('2.5.29.19', sequence(...(ca ? [yes()] : [])), 'critical'),
    // An authority signs certificates and revocation lists; everybody else makes digital signatures.
    extension('2.5.29.15', ca ? bits(Buffer.from([0x06]), 1) : bits(Buffer.from([0x80]), 7), 'critical'),
    extension('2.5.29.14', octets(keyId(publicKey))),
  ]
  if (issuer !== undefined) list.push(extension('2.5.29.35', sequence(der(0x80, keyId(createPublicKey(issuer.keyPem))))))
  if (usage.length > 0) list.push(extension('2.5.29.37', sequence(...usage.map((use) => objectId(usageIds[use])))))
  if (names.length > 0) list.push(extension('2.5.29.17', sequence(...names)))
  return list
}

const usageIds = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' } as const

function extension(id: string, value: Buffer, critical?: 'critical'): Buffer {
  return sequence(objectId(id), ...(critical === undefined ? [] : [yes()]), octets(value))
}

/** SHA-1 here is a label that links a certificate to its issuer's key; nothing is protected by it. */
function keyId(key: KeyObject): Buffer {
  return createHash('sha1')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()
}

function ipBytes(ip: string): Buffer {
  if (isIPv4(ip)) return Buffer.from(ip.split('.').map(Number))
  if (!isIPv6(ip) || ip.includes('%') || ip.includes('.')) throw new Error(`'${ip}' is no IP address a certificate can carry`)
  const [head = '', tail] = ip.split('::')
  const left = groups(head)
  const right = tail === undefined ? [] : groups(tail)
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => 0)
  return Buffer.from([...left, ...zeros, ...right].flatMap((group) => [group >> 8, group & 0xff]))
}

function groups(part: string): number[] {
  return part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
}
