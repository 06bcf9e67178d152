// Certificate and key of the broker's own TLS, read from their files at the start and again when they change: certificates are
// renewed while the process runs.
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'

export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}
export interface TlsMaterial {
  readonly cert: string
  readonly key: string
}

/** Throws with the file that is missing or the reason the two do not belong together. */
export function readTlsFiles({ certFile, keyFile }: TlsFiles): TlsMaterial {
  const material = { cert: textOf(certFile, 'server.tls_cert_file'), key: textOf(keyFile, 'server.tls_key_file') }
  try {
    createSecureContext(material)
  } catch (cause) {
    throw new Error(`server.tls_cert_file ${certFile} and server.tls_key_file ${keyFile} cannot be used together: ${reasonOf(cause)}`, {
      cause,
    })
  }
  return material
}

function textOf(file: string, setting: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${setting} ${file} cannot be read: ${reasonOf(cause)}`, { cause })
  }
}

const reasonOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

const lookEveryMs = 10_000

/** Hands over new material; files that do not fit are told once and the old ones stay in use. */
export function followTlsFiles(deps: { clock: Clock; log: Log }, files: TlsFiles, use: (material: TlsMaterial) => void): { stop(): void } {
  let seen = markOf(files)
  let timer = deps.clock.setTimer(lookEveryMs, look)
  function look(): void {
    timer = deps.clock.setTimer(lookEveryMs, look)
    const mark = markOf(files)
    if (mark === seen) return
    seen = mark
    try {
      use(readTlsFiles(files))
      deps.log.info('certificate read again', { file: files.certFile })
    } catch (error) {
      deps.log.error('the new certificate cannot be used; the old one stays', { error: error as Error })
    }
  }
  return { stop: () => timer.cancel() }
}

/** A link that is turned to another file, as ConfigMaps and Secrets do it, changes it too. */
function markOf({ certFile, keyFile }: TlsFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const found = statSync(file, { throwIfNoEntry: false })
      return found === undefined ? 'none' : `${found.ino} ${found.mtimeMs} ${found.size}`
    })
    .join()
}
