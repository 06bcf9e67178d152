// Verifies the broker before the first byte is sent: certificate chain, name and, if configured, public key. Verification cannot be
// disabled.
import { createHash, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'

export interface BrokerTls {
  readonly caFile: string | null
  readonly serverName: string | null
  /** SHA-256 of the broker's public key, checked in addition to chain and name. */
  readonly pin?: string | null
  readonly client?: { readonly certFile: string; readonly keyFile: string } | null
}

/** TLS options of the connection. */
export async function brokerTls({ caFile, serverName, pin, client }: BrokerTls) {
  return {
    ...(caFile === null ? {} : { ca: await readPem(caFile, 'agent.ca_file', "the broker's certificate authority") }),
    ...(serverName === null ? {} : { servername: serverName }),
    ...(await clientIdentity(client)),
    ...pinned(pin ?? null),
  }
}

async function readPem(path: string, setting: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new Terminal(`${setting} ${path} cannot be read: name a file with ${what} in PEM form`, { cause })
  }
}

async function clientIdentity(files: BrokerTls['client']): Promise<{ cert?: string; key?: string }> {
  if (!files) return {}
  return {
    cert: await readPem(files.certFile, 'agent.client_cert', "the agent's certificate"),
    key: await readPem(files.keyFile, 'agent.client_key', "the agent's private key"),
  }
}

/** Called after the chain was verified and before data is sent. */
function pinned(pin: string | null): { checkServerIdentity?: typeof checkServerIdentity } {
  if (pin === null) return {}
  const expected = pinBytes(pin)
  return {
    checkServerIdentity: (host: string, certificate: PeerCertificate) => {
      const actual = createHash('sha256')
        .update(new X509Certificate(certificate.raw).publicKey.export({ type: 'spki', format: 'der' }))
        .digest()
      if (actual.equals(expected)) return checkServerIdentity(host, certificate)
      return new Retryable(`the broker's public key is not the one of agent.pin: it is ${actual.toString('hex')}`)
    },
  }
}

function pinBytes(pin: string): Buffer {
  const text = pin.replace(/^sha256\/\//, '')
  return Buffer.from(text, /^[0-9a-fA-F]{64}$/.test(text) ? 'hex' : 'base64')
}
