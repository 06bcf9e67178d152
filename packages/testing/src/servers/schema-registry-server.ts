// A real schema registry (Apicurio, with the API of Confluent) on loopback, with data in memory. The program is a cache entry that
// Maven filled.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir } from '@brokkr/local/assets/cache.ts'
import { findJava } from '@brokkr/local/assets/java.ts'
import { fetchWithMaven } from '@brokkr/local/assets/maven.ts'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { type JvmServer, startJvmServer } from './jvm-server.ts'

export const schemaRegistryVersion = '3.3.3'
export type SchemaRegistryServer = JvmServer & { readonly url: string }
export type SchemaRegistryOptions = {
  dir: string
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
}

const archive = `apicurio-registry-app-${schemaRegistryVersion}-all.tar.gz`

/** The folder with the program. */
export function ensureSchemaRegistry(options: Omit<SchemaRegistryOptions, 'dir'> = {}): Promise<string> {
  const env = options.env ?? process.env
  const pomDir = fileURLToPath(new URL('../../maven/schema-registry', import.meta.url))
  const finish = async (dir: string, signal: AbortSignal) => {
    const log = { cwd: dir, logFile: join(dir, 'unpack.log'), timeoutMs: 600_000, signal }
    await runTool({ name: 'tar', command: 'tar', args: ['-xzf', archive, '--no-same-owner'], ...log })
    await rm(join(dir, archive))
  }
  return fetchWithMaven({ cache: cacheDir(env), key: `schema-registry/${schemaRegistryVersion}`, pomDir, finish, ...options, env })
}

export async function startSchemaRegistry(options: SchemaRegistryOptions): Promise<SchemaRegistryServer> {
  const program = await ensureSchemaRegistry(options)
  const java = findJava({ majorMin: 21, env: options.env ?? process.env }).command
  const [http, management] = await freePorts(2)
  const url = `http://127.0.0.1:${http}/apis/ccompat/v7`
  const server = await startJvmServer({
    name: 'the schema registry',
    java,
    args: ['-Xmx384m', '-jar', join(program, 'quarkus-run.jar')],
    dir: options.dir,
    // Unless told, the second port is open to the whole network.
    env: {
      QUARKUS_HTTP_HOST: '127.0.0.1',
      QUARKUS_HTTP_PORT: String(http),
      QUARKUS_MANAGEMENT_HOST: '127.0.0.1',
      QUARKUS_MANAGEMENT_PORT: String(management),
    },
    ready: { url: `${url}/subjects` },
    ...(options.signal ? { signal: options.signal } : {}),
  })
  return Object.assign(Object.create(server) as JvmServer, { url })
}
