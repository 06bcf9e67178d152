// Fetches what a pom.xml names with the machine's own Maven into a cache entry, and compares every file with the checksums that lie
// beside the pom: a run gets exactly the bytes that were tried, wherever Maven took them from.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { copyFile, mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fillOnce } from './cache.ts'
import { definedOnly } from './go-environment.ts'
import { findJava } from './java.ts'
import { waitForLock } from './lock-file.ts'
import { runTool } from './run-tool.ts'
import { findCommand } from './spawn-owned.ts'

export type MavenOptions = {
  cache: string
  /** Of the cache entry, with the version. */
  key: string
  /** The folder with pom.xml and checksums.txt. */
  pomDir: string
  env: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
  /** Works on the fetched files before the entry counts: unpacking, say. */
  finish?: (dir: string, signal: AbortSignal) => Promise<void>
}

/** The folder with the files. */
export function fetchWithMaven(options: MavenOptions): Promise<string> {
  const tell = options.onProgress ?? (() => {})
  return fillOnce(options.cache, options.key, (dir, signal) => fetch(options, dir, signal), {
    onWait: ({ pid }) => tell(`waiting for process ${pid}, which fetches it`),
    ...(options.signal ? { signal: options.signal } : {}),
  })
}

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'

async function fetch(options: MavenOptions, dir: string, signal: AbortSignal): Promise<void> {
  const maven = findCommand('mvn', options.env['PATH'] ?? '')
  if (maven === undefined)
    throw new Error(`${options.key} comes from a Maven repository, and mvn is not on PATH: install Maven (and a JDK, 22 or newer)`)
  const java = findJava({ majorMin: 17, env: options.env })
  const work = join(options.cache, 'maven')
  await mkdir(work, { recursive: true })
  // Maven's own folder is not made for two writers.
  const lock = await waitForLock(join(work, 'lock'), { signal })
  try {
    options.onProgress?.('asking Maven')
    await copyFile(join(options.pomDir, 'pom.xml'), join(dir, 'pom.xml'))
    await runTool({
      name: `mvn for ${options.key}`,
      command: maven,
      // -C: a file that does not match the checksum published beside it fails.
      args: ['-B', '-C', `-Dmaven.repo.local=${join(work, 'repository')}`, plugin, '-DincludeScope=runtime', `-DoutputDirectory=${dir}`],
      cwd: dir,
      env: { ...definedOnly(options.env), JAVA_HOME: java.home },
      logFile: join(work, `${options.key.replaceAll('/', '-')}.log`),
      timeoutMs: 30 * 60_000,
      signal,
      onLine: (line) => {
        const file = /^(?:\[INFO\] )?Downloaded from \S+: \S*\/(\S+)/.exec(line)?.[1]
        if (file !== undefined) options.onProgress?.(`fetched ${file}`)
      },
    })
  } finally {
    lock.release()
  }
  await checkFiles(dir, parseChecksums(await readFile(join(options.pomDir, 'checksums.txt'), 'utf8')))
  await options.finish?.(dir, signal)
}

/** Lines of sha256sum: the hash, two blanks, the name. */
export function parseChecksums(text: string): ReadonlyMap<string, string> {
  const lines = text.split('\n').filter((line) => line !== '')
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]))
}

/** Exactly these files, each with its bytes. */
export async function checkFiles(dir: string, wanted: ReadonlyMap<string, string>): Promise<void> {
  const found = (await readdir(dir)).filter((name) => name !== 'pom.xml')
  const missing = [...wanted.keys()].filter((name) => !found.includes(name))
  const foreign = found.filter((name) => !wanted.has(name))
  if (missing.length + foreign.length > 0)
    throw new Error(
      `Maven fetched other files than were tried: missing ${missing.join(', ') || 'none'}; unknown ${foreign.join(', ') || 'none'}`,
    )
  for (const [name, hash] of wanted) {
    const seen = await hashOf(join(dir, name))
    if (seen !== hash) throw new Error(`${name} is not the file that was tried: its SHA-256 is ${seen}, not ${hash}`)
  }
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
