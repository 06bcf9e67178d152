// A real Nessie on loopback: an Iceberg catalog whose tables lie in an S3 service. What it stores survives a kill. The program is a
// cache entry that Maven filled.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir } from '@brokkr/local/assets/cache.ts'
import { findJava } from '@brokkr/local/assets/java.ts'
import { fetchWithMaven } from '@brokkr/local/assets/maven.ts'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { type JvmServer, startJvmServer } from './jvm-server.ts'
import type { S3Address } from './s3-server.ts'

export const nessieVersion = '0.99.0'

/** `url` is without `/iceberg`, as in a flow's baseURL. */
export type NessieAddress = { url: string; warehouse: string; s3: S3Address }
export type NessieServer = JvmServer & { readonly address: NessieAddress }
export type NessieOptions = {
  dir: string
  s3: S3Address
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
}

/** Nessie needs Java 21. */
const javaMajorMin = 21
const program = `nessie-quarkus-${nessieVersion}-runner.jar`

/** The folder with the program. */
export function ensureNessie(options: Omit<NessieOptions, 'dir' | 's3'> = {}): Promise<string> {
  const env = options.env ?? process.env
  const pomDir = fileURLToPath(new URL('../../maven/nessie', import.meta.url))
  return fetchWithMaven({ cache: cacheDir(env), key: `nessie/${nessieVersion}`, pomDir, ...options, env })
}

export async function startNessie(options: NessieOptions): Promise<NessieServer> {
  const { dir, s3 } = options
  const folder = await ensureNessie(options)
  const { command: java } = findJava({ majorMin: javaMajorMin, env: options.env ?? process.env })
  const [port = 0, managementPort = 0] = await freePorts(2)
  const address = { url: `http://127.0.0.1:${port}`, warehouse: 'warehouse', s3 }
  const server = await startJvmServer({
    name: 'Nessie',
    java,
    args: ['-Xmx512m', ...toFlags(settings(address, { port, managementPort, dir })), '-jar', join(folder, program)],
    dir,
    ready: { url: `${address.url}/api/v2/config` },
    ...(options.signal ? { signal: options.signal } : {}),
  })
  return Object.assign(Object.create(server) as JvmServer, { address })
}

function settings({ warehouse, s3 }: NessieAddress, own: { port: number; managementPort: number; dir: string }): Record<string, string> {
  const storage = 'nessie.catalog.service.s3.default-options'
  return {
    'quarkus.http.host': '127.0.0.1',
    'quarkus.http.port': String(own.port),
    'quarkus.management.host': '127.0.0.1',
    'quarkus.management.port': String(own.managementPort),
    'nessie.version.store.type': 'ROCKSDB',
    'nessie.version.store.persist.rocks.database-path': join(own.dir, 'store'),
    'nessie.catalog.default-warehouse': warehouse,
    [`nessie.catalog.warehouses.${warehouse}.location`]: `s3://${s3.bucket}/`,
    [`${storage}.endpoint`]: s3.endpoint,
    [`${storage}.path-style-access`]: 'true',
    [`${storage}.region`]: s3.region,
    [`${storage}.access-key`]: 'urn:nessie-secret:quarkus:test.s3key',
    'test.s3key.name': s3.accessKey,
    'test.s3key.secret': s3.secretAccessKey,
    [`${storage}.request-signing-enabled`]: 'true',
  }
}

const toFlags = (values: Record<string, string>): string[] => Object.entries(values).map(([name, value]) => `-D${name}=${value}`)
