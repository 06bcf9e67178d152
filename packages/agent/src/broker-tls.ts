// How the broker proves who it is before a byte of ours is sent: by its certificate's chain, by its name and, where a pin is
// given, by its key. Always verified; there is no way to switch it off.
import { createHash, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'

export interface BrokerTls {
  readonly caFile: string | null
  readonly serverName: string | null
  /** SHA-256 of the broker's public key; the chain and the name are verified all the same. */
  readonly pin?: string | null
  readonly client?: { readonly certFile: string; readonly keyFile: string } | null
}

/** Options for the connection. */
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

/** Asked after the chain was verified and before a byte of ours is sent. */
function pinned(pin: string | null): { checkServerIdentity?: typeof checkServerIdentity } {
  if (pin === null) return {}
  const wanted = pinBytes(pin)
  return {
    checkServerIdentity: (host: string, certificate: PeerCertificate) => {
      const found = createHash('sha256')
        .update(new X509Certificate(certificate.raw).publicKey.export({ type: 'spki', format: 'der' }))
        .digest()
      if (found.equals(wanted)) return checkServerIdentity(host, certificate)
      return new Retryable(`the broker's public key is not the one of agent.pin: it is ${found.toString('hex')}`)
    },
  }
}

function pinBytes(pin: string): Buffer {
  const text = pin.replace(/^sha256\/\//, '')
  return Buffer.from(text, /^[0-9a-fA-F]{64}$/.test(text) ? 'hex' : 'base64')
}
