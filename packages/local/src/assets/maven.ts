// Downloads the dependencies of a pom.xml with the installed Maven into a cache entry, and verifies every file against the checksums
// beside the pom, because Maven may use any repository.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { copyFile, mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { waitForLock } from '../supervisor/lock-file.ts'
import { runTool } from '../supervisor/run-tool.ts'
import { findCommand } from '../supervisor/spawn-owned.ts'
import { ensureEntry } from './cache.ts'
import { dropUndefined } from './go-environment.ts'
import { findJava } from './java.ts'

export type MavenOptions = {
  cache: string
  /** Of the cache entry, with the version. */
  key: string
  /** The folder with pom.xml and checksums.txt. */
  pomDir: string
  env: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
  /** Processes the files, such as unpacking, before the entry becomes visible. */
  finish?: (dir: string, signal: AbortSignal) => Promise<void>
}

/** The folder with the files. */
export function fetchWithMaven(options: MavenOptions): Promise<string> {
  const tell = options.onProgress ?? (() => {})
  return ensureEntry(options.cache, options.key, (dir, signal) => fetch(options, dir, signal), {
    onWait: ({ pid }) => tell(`waiting for process ${pid}, which downloads it`),
    ...(options.signal ? { signal: options.signal } : {}),
  })
}

const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'

async function fetch(options: MavenOptions, dir: string, signal: AbortSignal): Promise<void> {
  const maven = findCommand('mvn', options.env['PATH'] ?? '')
  if (maven === undefined)
    throw new Error(`${options.key} is downloaded with Maven, and mvn is not on PATH: install Maven and a JDK (22 or newer)`)
  const java = findJava({ majorMin: 17, env: options.env })
  const work = join(options.cache, 'maven')
  await mkdir(work, { recursive: true })
  // Maven's local repository does not support concurrent writers.
  const lock = await waitForLock(join(work, 'lock'), { signal })
  try {
    options.onProgress?.('running Maven')
    await copyFile(join(options.pomDir, 'pom.xml'), join(dir, 'pom.xml'))
    await runTool({
      name: `mvn for ${options.key}`,
      command: maven,
      // -C: a file that does not match the checksum published beside it fails.
      args: ['-B', '-C', `-Dmaven.repo.local=${join(work, 'repository')}`, plugin, '-DincludeScope=runtime', `-DoutputDirectory=${dir}`],
      cwd: dir,
      env: { ...dropUndefined(options.env), JAVA_HOME: java.home },
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

/** Parses the output of sha256sum: hash, two spaces, name. */
export function parseChecksums(text: string): ReadonlyMap<string, string> {
  const lines = text.split('\n').filter((line) => line !== '')
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]))
}

/** Requires exactly these files with these checksums. */
export async function checkFiles(dir: string, checksums: ReadonlyMap<string, string>): Promise<void> {
  const fileNames = (await readdir(dir)).filter((name) => name !== 'pom.xml')
  const missingNames = [...checksums.keys()].filter((name) => !fileNames.includes(name))
  const unknownNames = fileNames.filter((name) => !checksums.has(name))
  if (missingNames.length + unknownNames.length > 0)
    throw new Error(
      `Maven downloaded other files than checksums.txt lists: missing ${missingNames.join(', ') || 'none'}; unknown ${unknownNames.join(', ') || 'none'}`,
    )
  for (const [name, hash] of checksums) {
    const digest = await hashFile(join(dir, name))
    if (digest !== hash) throw new Error(`${name} does not match checksums.txt: its SHA-256 is ${digest}, not ${hash}`)
  }
}

async function hashFile(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
