// Certificate and key of the broker's own TLS, read at the start and again when the files change, because certificates are renewed
// while the process runs.
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'

export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}
export interface TlsMaterial {
  readonly cert: string
  readonly key: string
}

/** Throws an error that names the unreadable file, or the reason why certificate and key do not match. */
export function readTlsFiles({ certFile, keyFile }: TlsFiles): TlsMaterial {
  const material = { cert: readTlsFile(certFile, 'server.tls_cert_file'), key: readTlsFile(keyFile, 'server.tls_key_file') }
  try {
    createSecureContext(material)
  } catch (cause) {
    throw new Error(`server.tls_cert_file ${certFile} and server.tls_key_file ${keyFile} cannot be used together: ${toReason(cause)}`, {
      cause,
    })
  }
  return material
}

function readTlsFile(file: string, setting: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${setting} ${file} cannot be read: ${toReason(cause)}`, { cause })
  }
}

const toReason = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

const checkEveryMs = 10_000

/** Watches the files and passes on new material. Invalid files are logged once; the previous certificate stays in use. */
export function watchTlsFiles(deps: { clock: Clock; log: Log }, files: TlsFiles, use: (material: TlsMaterial) => void): { stop(): void } {
  let seen = readFileVersions(files)
  let timer = deps.clock.setTimer(checkEveryMs, look)
  function look(): void {
    timer = deps.clock.setTimer(checkEveryMs, look)
    const mark = readFileVersions(files)
    if (mark === seen) return
    seen = mark
    try {
      use(readTlsFiles(files))
      deps.log.info('certificate reloaded', { file: files.certFile })
    } catch (error) {
      deps.log.error('certificate reload failed, previous one in use', { error: error as Error })
    }
  }
  return { stop: () => timer.cancel() }
}

/** Identity and modification time of both files. Includes the target of a symbolic link, because ConfigMaps and Secrets are updated by replacing a link. */
function readFileVersions({ certFile, keyFile }: TlsFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const found = statSync(file, { throwIfNoEntry: false })
      return found === undefined ? 'none' : `${found.ino} ${found.mtimeMs} ${found.size}`
    })
    .join()
}
