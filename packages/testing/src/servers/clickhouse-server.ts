// A real ClickHouse on loopback: the library libchdb contains the engine with its HTTP interface, and a launcher of a few lines opens
// it. Tables survive a kill. The library is a cache entry that npm filled.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { cacheDir, ensureEntry } from '@brokkr/local/assets/cache.ts'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { findCommand } from '@brokkr/local/supervisor/spawn-owned.ts'
import { type DataServer, startDataServer } from './data-server.ts'

export const clickhouseVersion = '26.7.3-stable.1'
/** Of the package as npm downloads it. */
const packageSha256 = 'c0d32b129e988f2b9a9a31c9141aecf5e1e2453f9a079efc4d36ab8e3f92b2ad'
const archive = `chdb-lib-linux-x64-gnu-${clickhouseVersion}.tgz`

/** `url` is without credentials: the user `default` has no password; `app` has one. */
export type ClickhouseAddress = { url: string; app: { username: string; password: string } }
export type ClickhouseServer = DataServer & { readonly address: ClickhouseAddress }
export type ClickhouseOptions = {
  dir: string
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
}

/** The folder with libchdb.so. */
export function ensureClickhouse(options: Omit<ClickhouseOptions, 'dir'> = {}): Promise<string> {
  const env = options.env ?? process.env
  if (process.platform !== 'linux' || process.arch !== 'x64')
    return Promise.reject(new Error('ClickHouse for tests exists for linux x64 only; leave it out with BROKKR_TEST_WITHOUT=clickhouse'))
  const fill = async (dir: string, signal: AbortSignal) => {
    options.onProgress?.('downloading libchdb (170 MiB)')
    await download(dir, env, signal)
  }
  return ensureEntry(cacheDir(env), `clickhouse/${clickhouseVersion}`, fill, options.signal === undefined ? {} : { signal: options.signal })
}

async function download(dir: string, env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<void> {
  const npm = requireCommand('npm', env)
  const run = (name: string, command: string, args: readonly string[]) =>
    runTool({ name, command, args, cwd: dir, env: definedOnly(env), logFile: join(dir, 'fetch.log'), timeoutMs: 1_200_000, signal })
  // Under `npm test` the child inherits allow-remote=none of the project, which refuses a registry that serves archives from another
  // host. The digest below pins the archive.
  await run('npm pack', npm, ['pack', '--loglevel=error', '--allow-remote=all', `@chdb/lib-linux-x64-gnu@${clickhouseVersion}`])
  const hash = createHash('sha256')
  await pipeline(createReadStream(join(dir, archive)), hash)
  const digest = hash.digest('hex')
  if (digest !== packageSha256) throw new Error(`${archive} has the SHA-256 ${digest}, not ${packageSha256}`)
  await run('tar', 'tar', ['-xzf', archive, '--no-same-owner', 'package/libchdb.so'])
  await rename(join(dir, 'package', 'libchdb.so'), join(dir, 'libchdb.so'))
  await rm(join(dir, 'package'), { recursive: true })
  await rm(join(dir, archive))
}

export async function startClickhouse(options: ClickhouseOptions): Promise<ClickhouseServer> {
  const library = join(await ensureClickhouse(options), 'libchdb.so')
  const python = requireCommand('python3', options.env ?? process.env)
  const [port] = await freePorts(1)
  const address = { url: `http://127.0.0.1:${port}`, app: { username: 'app', password: 'app-password' } }
  await mkdir(join(options.dir, 'access'), { recursive: true })
  await writeFile(join(options.dir, 'users.xml'), usersText(address))
  await writeFile(join(options.dir, 'config.xml'), configText(options.dir))
  const launcher = fileURLToPath(new URL('../../python/clickhouse_http.py', import.meta.url))
  const server = await startDataServer({
    name: 'ClickHouse',
    command: python,
    args: [launcher, library, String(port), join(options.dir, 'data'), '--config-file', join(options.dir, 'config.xml')],
    dir: options.dir,
    ready: { url: `${address.url}/ping` },
    ...(options.signal ? { signal: options.signal } : {}),
  })
  return Object.assign(Object.create(server) as DataServer, { address })
}

const usersText = ({ app }: ClickhouseAddress): string =>
  `<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>
<default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota><access_management>1</access_management></default>
<${app.username}><password>${app.password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></${app.username}>
</users></clickhouse>
`

const configText = (dir: string): string =>
  `<clickhouse><users_config>${dir}/users.xml</users_config><user_directories><users_xml><path>${dir}/users.xml</path></users_xml>
<local_directory><path>${dir}/access/</path></local_directory></user_directories></clickhouse>
`

function requireCommand(name: string, env: NodeJS.ProcessEnv): string {
  const command = findCommand(name, env['PATH'] ?? '')
  if (command === undefined)
    throw new Error(`ClickHouse for tests needs ${name} on PATH: install it, or set BROKKR_TEST_WITHOUT=clickhouse`)
  return command
}

const definedOnly = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined))
