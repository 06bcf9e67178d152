// Bare cache repositories: one per URL and credential hash, used by one attempt at a time, bounded in size and number.
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import { errorText, Terminal } from '@brokkr/runtime/errors.ts'
import { type Allow, allowPrivateNetworks } from '@brokkr/runtime/http-client/address.ts'
import { type Lookup, lookupAll, resolveChecked } from '@brokkr/runtime/http-client/connect.ts'
import { findProxy } from '@brokkr/runtime/http-client/proxy-env.ts'
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import { CliWorkspace } from './cli-workspace.ts'
import { type GitPlace, removeLocks, runGit } from './run-git.ts'
import { type GitAccess, GitError, type GitRepositories, type GitWorkspace } from './workspace.ts'

export interface GitSettings {
  /** Null: a private temporary directory. */
  readonly cacheDir: string | null
  readonly timeoutMs: number
  /** Of one cache repository. */
  readonly bytesMax: number
  /** http, and loopback and link-local addresses: for tests and trials. */
  readonly allowInsecure: boolean
  /** Cache repositories that are kept; default 50. The one that was not used for longest is removed: credentials are renewed. */
  readonly repositoriesMax?: number
}

export interface GitDeps {
  readonly lookup?: Lookup
  /** After every run of git: its command and how long it took. */
  readonly onRun?: (command: string, seconds: number) => void
}

const RESOLVE_MS = 10_000
const REPOSITORIES_MAX = 50
const SUFFIX = '.git'
const NAME_LENGTH = 40

export async function openGitRepositories(settings: GitSettings, deps: GitDeps = {}): Promise<GitRepositories> {
  const root = settings.cacheDir ?? (await mkdtemp(join(tmpdir(), 'brokkr-git-')))
  const home = join(root, 'home')
  await mkdir(home, { recursive: true, mode: 0o700 })
  const locks = new Map<string, Promise<unknown>>()

  async function open(access: GitAccess, signal: AbortSignal): Promise<GitWorkspace> {
    const name = nameOf(access)
    const release = await acquire(locks, name, signal)
    try {
      const config = await configOf(access, { root, name, settings, lookup: deps.lookup ?? lookupAll })
      const place: GitPlace = { home, repository: join(root, `${name}${SUFFIX}`) }
      await prepare(place, settings, signal)
      await removeUnused({ root, locks, max: settings.repositoriesMax ?? REPOSITORIES_MAX }, signal)
      const isOverLimit = async () => (await sizeOf(place.repository)) > settings.bytesMax
      return new CliWorkspace({ place, url: access.url, config, timeoutMs: settings.timeoutMs, isOverLimit, release, onRun: deps.onRun })
    } catch (error) {
      release()
      throw error
    }
  }

  return {
    open,
    async close() {
      await Promise.all(locks.values())
      if (settings.cacheDir === null) await rm(root, { recursive: true, force: true })
    },
  }
}

/** Another credential may read other content, so it has a cache of its own. */
function nameOf({ url, username, password, caPem }: GitAccess): string {
  const parts = [url, username ?? '', password ?? '', caPem ?? '']
  return createHash('sha256')
    .update(parts.map((part) => `${part.length}:${part}`).join(','))
    .digest('hex')
    .slice(0, NAME_LENGTH)
}

/** The cache directory may be shared: what this program did not make is never removed. */
const isOwnName = (name: string): boolean => name.length === NAME_LENGTH && /^[0-9a-f]+$/.test(name)

async function acquire(locks: Map<string, Promise<unknown>>, name: string, signal: AbortSignal): Promise<() => void> {
  const before = locks.get(name)
  const held = Promise.withResolvers<void>()
  const ended = Promise.all([before, held.promise])
  locks.set(name, ended)
  void forgetAfter(locks, name, ended)
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    signal.throwIfAborted()
    await Promise.race([before, aborted.promise])
    return held.resolve
  } catch (error) {
    held.resolve()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    aborted.promise.catch(() => {})
  }
}

async function forgetAfter(locks: Map<string, Promise<unknown>>, name: string, ended: Promise<unknown>): Promise<void> {
  await ended
  if (locks.get(name) === ended) locks.delete(name)
}

/** Removes the repositories that were used longest ago; those in use stay. */
async function removeUnused(at: { root: string; locks: Map<string, Promise<unknown>>; max: number }, signal: AbortSignal): Promise<void> {
  const entries = (await readdir(at.root)).filter((entry) => entry.endsWith(SUFFIX))
  const names = entries.map((entry) => entry.slice(0, -SUFFIX.length)).filter(isOwnName)
  if (names.length <= at.max) return
  const lastUseMs = (name: string) =>
    stat(join(at.root, `${name}${SUFFIX}`)).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    )
  const used = await Promise.all(names.map(async (name) => ({ name, atMs: await lastUseMs(name) })))
  const oldest = used.toSorted((a, b) => a.atMs - b.atMs).slice(0, names.length - at.max)
  for (const { name } of oldest) {
    if (at.locks.has(name)) continue
    const release = await acquire(at.locks, name, signal)
    try {
      await rm(join(at.root, `${name}${SUFFIX}`), { recursive: true, force: true })
      await rm(join(at.root, `${name}.ca.pem`), { force: true })
    } finally {
      release()
    }
  }
}

/** A cache that fills half of its limit begins anew: every fetch is shallow, so that costs one fetch. */
async function prepare(place: GitPlace, settings: GitSettings, signal: AbortSignal): Promise<void> {
  const size = await sizeOf(place.repository)
  if (size > settings.bytesMax / 2) await rm(place.repository, { recursive: true, force: true })
  await mkdir(place.repository, { recursive: true, mode: 0o700 })
  // Of a process that was killed.
  await removeLocks(place.repository)
  const args = ['init', '--quiet', '--bare', '--template=', '.']
  const { code, stderr } = await runGit(place, { args, timeoutMs: settings.timeoutMs, signal })
  const now = new Date()
  await utimes(place.repository, now, now)
  if (code !== 0) throw new GitError({ outcome: 'failed', class: 'transient', reason: 'GitFailed', message: redactText(stderr) })
}

async function configOf(
  access: GitAccess,
  at: { root: string; name: string; settings: GitSettings; lookup: Lookup },
): Promise<Record<string, string>> {
  const config: Record<string, string> = {}
  if (at.settings.allowInsecure) config['protocol.http.allow'] = 'always'
  else Object.assign(config, await pinnedAddress(access, at.lookup))
  if (access.username !== null || access.password !== null) {
    const basic = Buffer.from(`${access.username ?? ''}:${access.password ?? ''}`).toString('base64')
    config['http.extraHeader'] = `Authorization: Basic ${basic}`
  }
  if (access.caPem !== null) {
    const file = join(at.root, `${at.name}.ca.pem`)
    await writeFile(file, [...getCACertificates('default'), access.caPem].join('\n'), { mode: 0o600 })
    config['http.sslCAInfo'] = file
  }
  return config
}

/** git connects to the address that was checked: no second look-up can lead elsewhere. */
async function pinnedAddress({ url }: GitAccess, lookup: Lookup, allow: Allow = allowPrivateNetworks): Promise<Record<string, string>> {
  // A proxy resolves the name by itself.
  if (findProxy(new URL(url), process.env) !== null) return {}
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  try {
    const addresses = await resolveChecked(lookup, host, allow, RESOLVE_MS)
    const pinned = addresses.map((address) => (address.includes(':') ? `[${address}]` : address)).join(',')
    return { 'http.curloptResolve': `${host}:${port === '' ? '443' : port}:${pinned}` }
  } catch (error) {
    const isRefused = error instanceof Terminal
    const message = redactText(`${url}: ${errorText(error)}`)
    throw new GitError(
      isRefused
        ? { outcome: 'failed', class: 'configuration', reason: 'InvalidRepositoryURL', message }
        : { outcome: 'failed', class: 'transient', reason: 'HostNotResolved', message },
    )
  }
}

/** Bytes of all files below; files that disappear meanwhile count nothing. */
async function sizeOf(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map((file) =>
      stat(join(file.parentPath, file.name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
