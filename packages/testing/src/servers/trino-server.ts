// A real Trino on loopback with one catalog that keeps tables in memory; catalogs of Iceberg tables are added by statements. The program
// is a cache entry that Maven filled.
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir } from '@brokkr/local/assets/cache.ts'
import { findJava } from '@brokkr/local/assets/java.ts'
import { fetchWithMaven } from '@brokkr/local/assets/maven.ts'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { type JvmServer, startJvmServer } from './jvm-server.ts'

export const trinoVersion = '476'
/** `catalog` is the one that keeps tables in memory. */
export type TrinoAddress = { url: string; catalog: string; schema: string }
export type TrinoServer = JvmServer & { readonly address: TrinoAddress }
export type TrinoOptions = {
  dir: string
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
}

/** Trino needs Java 22. */
const javaMajorMin = 22
const core = `trino-server-core-${trinoVersion}`
const plugins = ['memory', 'iceberg']

/** The folder with lib/ and plugin/. */
export function ensureTrino(options: Omit<TrinoOptions, 'dir'> = {}): Promise<string> {
  const env = options.env ?? process.env
  const pomDir = fileURLToPath(new URL('../../maven/trino', import.meta.url))
  const { home } = findJava({ majorMin: javaMajorMin, env })
  const finish = async (dir: string, signal: AbortSignal) => {
    const tool = { cwd: dir, logFile: join(dir, 'unpack.log'), timeoutMs: 600_000, signal }
    await runTool({ name: 'tar', command: 'tar', args: ['-xzf', `${core}.tar.gz`, '--no-same-owner'], ...tool })
    await rename(join(dir, core, 'lib'), join(dir, 'lib'))
    await mkdir(join(dir, 'plugin'))
    for (const name of plugins) {
      const plugin = `trino-${name}-${trinoVersion}`
      await runTool({ name: 'jar', command: join(home, 'bin', 'jar'), args: ['-xf', `${plugin}.zip`], ...tool })
      await rename(join(dir, plugin), join(dir, 'plugin', name))
      await rm(join(dir, `${plugin}.zip`))
    }
    for (const left of [core, `${core}.tar.gz`]) await rm(join(dir, left), { recursive: true })
  }
  return fetchWithMaven({ cache: cacheDir(env), key: `trino/${trinoVersion}-${plugins.join('-')}`, pomDir, finish, ...options, env })
}

export async function startTrino(options: TrinoOptions): Promise<TrinoServer> {
  const program = await ensureTrino(options)
  const { command: java } = findJava({ majorMin: javaMajorMin, env: options.env ?? process.env })
  const [port] = await freePorts(1)
  const address = { url: `http://127.0.0.1:${port}`, catalog: 'memory', schema: 'default' }
  await writeFiles(options.dir, address.url, program)
  const node = { environment: 'test', id: 'test', 'data-dir': join(options.dir, 'data'), 'bind-ip': '127.0.0.1' }
  const server = await startJvmServer({
    name: 'Trino',
    java,
    args: [
      '-Xmx1g',
      '-Djdk.attach.allowAttachSelf=true',
      '-XX:+EnableDynamicAgentLoading',
      '--add-modules=jdk.incubator.vector',
      '--enable-native-access=ALL-UNNAMED',
      '--sun-misc-unsafe-memory-access=allow',
      '-Dconfig=etc/config.properties',
      '-Dlog.levels-file=etc/log.properties',
      ...Object.entries(node).map(([name, value]) => `-Dnode.${name}=${value}`),
      '-cp',
      join(program, 'lib', '*'),
      'io.trino.server.TrinoServer',
    ],
    dir: options.dir,
    ready: { check: () => isStarted(address.url) },
    ...(options.signal ? { signal: options.signal } : {}),
  })
  return Object.assign(Object.create(server) as JvmServer, { address })
}

async function isStarted(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/v1/info`, { signal: AbortSignal.timeout(5_000) })
  return ((await answer.json()) as { starting?: boolean }).starting === false
}

async function writeFiles(dir: string, url: string, program: string): Promise<void> {
  await mkdir(join(dir, 'etc', 'catalog'), { recursive: true })
  const config = {
    coordinator: 'true',
    'node-scheduler.include-coordinator': 'true',
    'http-server.http.port': new URL(url).port,
    'node.internal-address': '127.0.0.1',
    'discovery.uri': url,
    'query.max-memory': '400MB',
    'query.max-memory-per-node': '400MB',
    'plugin.dir': join(program, 'plugin'),
    'catalog.management': 'dynamic',
    // Answers of a proxy in front of the server keep its address.
    'http-server.process-forwarded': 'true',
  }
  const lines = Object.entries(config).map(([name, value]) => `${name}=${value}\n`)
  await writeFile(join(dir, 'etc', 'config.properties'), lines.join(''))
  await writeFile(join(dir, 'etc', 'log.properties'), 'io.trino=WARN\n')
  await writeFile(join(dir, 'etc', 'catalog', 'memory.properties'), 'connector.name=memory\nmemory.max-data-per-node=128MB\n')
}
