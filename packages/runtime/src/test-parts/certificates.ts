// Issues X.509 certificates for tests of TLS: a small DER writer and one signing function, enough for an authority and the
// good and bad servers below it. Never for anything but tests.
import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIPv4 } from 'node:net'

export type Issued = { certPem: string; keyPem: string }
export type CertificateRequest = {
  name: string
  /** DNS names and IPv4 addresses. */
  hosts?: readonly string[]
  isAuthority?: boolean
  /** Signs itself when left out. */
  issuer?: Issued & { name: string }
  validFrom?: Date
  validUntil?: Date
}

const dayMs = 86_400_000

export function issueCertificate(request: CertificateRequest): Issued & { name: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const body = certificateBody(request, publicKey)
  const issuerKey = request.issuer ? createPrivateKey(request.issuer.keyPem) : privateKey
  const certificate = sequence(body, ecdsaWithSha256, bitString(sign('sha256', body, issuerKey)))
  const keyPem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  return { name: request.name, certPem: pem(certificate), keyPem: String(keyPem) }
}

function certificateBody(request: CertificateRequest, publicKey: KeyObject): Buffer {
  const { name, issuer, validFrom = new Date(Date.now() - dayMs), validUntil = new Date(Date.now() + dayMs) } = request
  return sequence(
    tagged(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    distinguishedName(issuer?.name ?? name),
    sequence(generalizedTime(validFrom), generalizedTime(validUntil)),
    distinguishedName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...extensions(request))),
  )
}

function extensions({ hosts = [], isAuthority = false }: CertificateRequest): Buffer[] {
  const names = hosts.map((host) =>
    isIPv4(host) ? tagged(0x87, Buffer.from(host.split('.').map(Number))) : tagged(0x82, Buffer.from(host)),
  )
  const basic = extension('551d13', sequence(...(isAuthority ? [tagged(0x01, Buffer.from([0xff]))] : [])))
  return names.length === 0 ? [basic] : [basic, extension('551d11', sequence(...names))]
}

const ecdsaWithSha256 = sequence(objectId('2a8648ce3d040302'))

function extension(id: string, value: Buffer): Buffer {
  return sequence(objectId(id), tagged(0x04, value))
}

function distinguishedName(commonName: string): Buffer {
  return sequence(tagged(0x31, sequence(objectId('550403'), tagged(0x0c, Buffer.from(commonName)))))
}

function generalizedTime(date: Date): Buffer {
  return tagged(0x18, Buffer.from(`${date.toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))
}

function objectId(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, 'hex'))
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes)
}

function bitString(bytes: Buffer): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([0]), bytes]))
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts))
}

/** Tag, length (short form below 128, else the number of its bytes first), content. */
function tagged(tag: number, content: Buffer): Buffer {
  const length =
    content.length < 128
      ? [content.length]
      : content.length < 256
        ? [0x81, content.length]
        : [0x82, content.length >> 8, content.length & 255]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}

function pem(der: Buffer): string {
  return `-----BEGIN CERTIFICATE-----\n${(der.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END CERTIFICATE-----\n`
}
