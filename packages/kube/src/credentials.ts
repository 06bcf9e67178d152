// What signs us in, kept fresh: files are read again when they may have changed, an exec plugin runs again before its answer ends.
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { KubeError } from './api-error.ts'
import type { ExecCredential } from './exec-credential.ts'
import { runExecPlugin } from './exec-credential.ts'
import type { KubeConfig, PemSource } from './kube-config.ts'
import { clusterInfoOf } from './kube-config.ts'

export interface TlsFacts {
  ca?: string
  cert?: string
  key?: string
}

export interface Credentials {
  /** The bearer token of the next request; undefined when a certificate or nothing signs in. */
  token(): Promise<string | undefined>
  /** The same where it is at hand; undefined: it must be looked at first. */
  tokenNow(): { readonly token: string | undefined } | undefined
  tls(): Promise<TlsFacts>
  /** After a 401: reads everything anew, at most once per `renewEveryMs`. True when it is another credential now. */
  renew(): Promise<boolean>
  /** One sentence about why a 401 may have come, such as an expired certificate. */
  explain(): Promise<string>
}

export interface CredentialDeps {
  clock: Clock
  env: Readonly<Record<string, string | undefined>>
}

const FILE_AGE_MS = 5_000
const RENEW_EVERY_MS = 1_000
const EXEC_TIMEOUT_MS = 60_000
/** A token that ends within this time would end on its way. */
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
    const held = exec.now()
    return held && { token: held.token }
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

/** Small files, read again after a few seconds: the kubelet swaps them by renaming, which no watch reports reliably. */
function createFileReader(clock: Clock): { read(path: string): Promise<string>; now(path: string): string | undefined; forget(): void } {
  const cache = new Map<string, { text: Promise<string>; atMs: number; now?: string }>()
  const isFresh = ({ atMs }: { atMs: number }): boolean => clock.monotonicMs() - atMs < FILE_AGE_MS
  return {
    now(path) {
      const known = cache.get(path)
      return known && isFresh(known) ? known.now : undefined
    },
    read(path) {
      const known = cache.get(path)
      if (known && isFresh(known)) return known.text
      const text = readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
        // A moment without the file while it is being swapped must not stop us: what we have still counts.
        if (known) return known.text
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
  let known: ExecCredential | undefined
  let running: Promise<ExecCredential> | undefined
  const plugin = config.token?.kind === 'exec' ? config.token : undefined
  const now = (): ExecCredential | undefined => (known && known.expiresAtMs - EXEC_EARLY_MS > deps.clock.now() ? known : undefined)
  return {
    now,
    async read() {
      if (!plugin) throw new KubeError('no credential plugin is configured', { reason: 'BadCredential' })
      const held = now()
      if (held) return held
      // One run serves everybody who waits: a plugin may open a browser or count against a quota.
      running ??= runExecPlugin(plugin, { env: deps.env, cluster: clusterInfoOf(config), timeoutMs: EXEC_TIMEOUT_MS }).finally(() => {
        running = undefined
      })
      known = await running
      return known
    },
    forget: () => {
      known = undefined
    },
  }
}
