// Converts a connector's TLS settings to Node's. Certificates are text or files of the image or a mounted volume.
import { readFile } from 'node:fs/promises'
import { toError } from '@brokkr/runtime/errors.ts'
import { ConnectorError } from './connector.ts'

/** As in the normalized flow. */
export interface TlsSettings {
  readonly insecureSkipVerify: boolean
  readonly certFile?: string | undefined
  readonly keyFile?: string | undefined
  readonly caFile?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  readonly ca?: string | undefined
}

export interface TlsOptions {
  readonly minVersion: 'TLSv1.2'
  readonly rejectUnauthorized: boolean
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** A configured authority is always verified, even with insecureSkipVerify. */
export async function tlsOptions(tls: TlsSettings): Promise<TlsOptions> {
  const ca = tls.ca ?? (await fileText('caFile', tls.caFile))
  const cert = tls.cert ?? (await fileText('certFile', tls.certFile))
  const key = tls.key ?? (await fileText('keyFile', tls.keyFile))
  if ((cert === undefined) !== (key === undefined)) throw configError('tls needs both a certificate and its key, or neither')
  return {
    minVersion: 'TLSv1.2',
    rejectUnauthorized: ca !== undefined || !tls.insecureSkipVerify,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  }
}

async function fileText(field: string, path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined
  try {
    return await readFile(path, 'utf8')
  } catch (thrown) {
    throw configError(`tls.${field} ${path} cannot be read: ${(toError(thrown) as NodeJS.ErrnoException).code ?? 'unknown'}`)
  }
}

const configError = (message: string) => new ConnectorError({ class: 'config', type: 'auth_error' }, message)
