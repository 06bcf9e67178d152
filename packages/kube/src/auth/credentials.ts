// Keeps credentials current: reads files again after a few seconds and runs an exec plugin again before its credential expires.
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { KubeError } from '../client/kube-error.ts'
import type { ExecCredential } from './exec-credential.ts'
import { runExecPlugin } from './exec-credential.ts'
import type { KubeConfig, PemSource } from './kube-config.ts'
import { toClusterInfo } from './kube-config.ts'

export interface TlsFacts {
  ca?: string
  cert?: string
  key?: string
}

export interface Credentials {
  /** Returns the bearer token for the next request; undefined when a client certificate or no credential is used. */
  token(): Promise<string | undefined>
  /** Returns the token if it is in memory; undefined if a file or plugin has to be read first. */
  tokenNow(): { readonly token: string | undefined } | undefined
  tls(): Promise<TlsFacts>
  /** After a 401: reads all sources again, at most once per `renewEveryMs`. Returns true if the credential changed. */
  renew(): Promise<boolean>
  /** Explains a possible cause of a 401, such as an expired certificate, in one sentence. */
  explain(): Promise<string>
}

export interface CredentialDeps {
  clock: Clock
  env: Readonly<Record<string, string | undefined>>
}

const FILE_AGE_MS = 5_000
const RENEW_EVERY_MS = 1_000
const EXEC_TIMEOUT_MS = 60_000
/** A token that expires within this time could expire before the request arrives. */
const EXEC_EARLY_MS = 15_000

export function createCredentials(deps: CredentialDeps, config: KubeConfig): Credentials {
  const files = createFileReader(deps.clock)
  const exec = createExecReader(deps, config)
  let renewedAtMs = Number.NEGATIVE_INFINITY

  async function token(): Promise<string | undefined> {
    const source = config.token
    if (!source) return undefined
    if (source.kind === 'value') return source.value
    return source.kind === 'file' ? (await files.read(source.path)).trim() : (await exec.read()).token
  }

  function tokenNow(): { token: string | undefined } | undefined {
    const source = config.token
    if (!source) return { token: undefined }
    if (source.kind === 'value') return { token: source.value }
    if (source.kind === 'file') {
      const text = files.now(source.path)
      return text === undefined ? undefined : { token: text.trim() }
    }
    const credential = exec.now()
    return credential && { token: credential.token }
  }

  async function tls(): Promise<TlsFacts> {
    const plugin = config.token?.kind === 'exec' ? (await exec.read()).certificate : undefined
    const ca = config.ca ? await pem(config.ca) : undefined
    const pair =
      plugin ?? (config.certificate ? { cert: await pem(config.certificate.cert), key: await pem(config.certificate.key) } : undefined)
    return { ...(ca ? { ca } : {}), ...pair }
  }

  const pem = (source: PemSource): Promise<string> => ('pem' in source ? Promise.resolve(source.pem) : files.read(source.file))
  const all = async (): Promise<string> => JSON.stringify([await token(), await tls()])

  async function renew(): Promise<boolean> {
    if (deps.clock.monotonicMs() - renewedAtMs < RENEW_EVERY_MS) return false
    renewedAtMs = deps.clock.monotonicMs()
    const before = await all().catch(() => '')
    files.forget()
    exec.forget()
    return (await all()) !== before
  }

  async function explain(): Promise<string> {
    const { cert } = await tls()
    if (!cert) return config.token ? 'The token was refused: it has expired or was revoked' : 'No credential is configured'
    const { validTo } = new X509Certificate(cert)
    return Date.parse(validTo) < deps.clock.now()
      ? `The client certificate expired on ${validTo}: renew it`
      : 'The client certificate was refused'
  }

  return { token, tokenNow, tls, renew, explain }
}

/** Caches small files for a few seconds: the kubelet replaces them by renaming, which file watches do not report reliably. */
function createFileReader(clock: Clock): { read(path: string): Promise<string>; now(path: string): string | undefined; forget(): void } {
  const cache = new Map<string, { text: Promise<string>; atMs: number; now?: string }>()
  const isFresh = ({ atMs }: { atMs: number }): boolean => clock.monotonicMs() - atMs < FILE_AGE_MS
  return {
    now(path) {
      const cached = cache.get(path)
      return cached && isFresh(cached) ? cached.now : undefined
    },
    read(path) {
      const cached = cache.get(path)
      if (cached && isFresh(cached)) return cached.text
      const text = readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
        // While the kubelet replaces the file it can be missing for a moment; the cached content stays valid.
        if (cached) return cached.text
        throw new KubeError(`credential file ${path} cannot be read: ${cause.code}`, { reason: 'BadCredential', cause })
      })
      const entry: { text: Promise<string>; atMs: number; now?: string } = { text, atMs: clock.monotonicMs() }
      cache.set(path, entry)
      text.then(
        (now) => (entry.now = now),
        () => cache.delete(path),
      )
      return text
    },
    forget: () => {
      for (const entry of cache.values()) entry.atMs = Number.NEGATIVE_INFINITY
    },
  }
}

function createExecReader(
  deps: CredentialDeps,
  config: KubeConfig,
): {
  read(): Promise<ExecCredential>
  now(): ExecCredential | undefined
  forget(): void
} {
  let cached: ExecCredential | undefined
  let running: Promise<ExecCredential> | undefined
  const plugin = config.token?.kind === 'exec' ? config.token : undefined
  const now = (): ExecCredential | undefined => (cached && cached.expiresAtMs - EXEC_EARLY_MS > deps.clock.now() ? cached : undefined)
  return {
    now,
    async read() {
      if (!plugin) throw new KubeError('no credential plugin is configured', { reason: 'BadCredential' })
      const credential = now()
      if (credential) return credential
      // All waiting requests share one run, because a plugin may open a browser or count against a quota.
      running ??= runExecPlugin(plugin, { env: deps.env, cluster: toClusterInfo(config), timeoutMs: EXEC_TIMEOUT_MS }).finally(() => {
        running = undefined
      })
      cached = await running
      return cached
    },
    forget: () => {
      cached = undefined
    },
  }
}
