// A real S3 service on loopback: versitygw over a folder. Objects survive a kill. The program is built once from its Go module and
// cached; go/versitygw/go.sum pins what goes in.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, ensureEntry } from '@brokkr/local/assets/cache.ts'
import { buildGoEnvironment } from '@brokkr/local/assets/go-environment.ts'
import { findGo } from '@brokkr/local/assets/go-toolchain.ts'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { type DataServer, startDataServer } from './data-server.ts'

export const versitygwVersion = '1.8.0'

/** `bucket` exists. */
export type S3Address = { endpoint: string; region: string; accessKey: string; secretAccessKey: string; bucket: string }
export type S3Server = DataServer & { readonly address: S3Address }
export type S3Options = {
  dir: string
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
}

const hourMs = 3_600_000

/** The program. */
export async function ensureVersitygw(options: Omit<S3Options, 'dir'> = {}): Promise<string> {
  const env = options.env ?? process.env
  const cache = cacheDir(env)
  const key = `versitygw/${versitygwVersion}-${process.platform}-${process.arch}`
  const fill = async (dir: string, signal: AbortSignal) => {
    const go = await findGo({ ...options, env, cache })
    const logs = join(cache, 'go', 'logs')
    await mkdir(logs, { recursive: true })
    options.onProgress?.('compiling versitygw, which takes four minutes of a processor')
    await runTool({
      name: 'go build',
      command: go.go,
      args: ['build', '-ldflags=-s -w', '-o', `${dir}/`, 'github.com/versity/versitygw/cmd/versitygw'],
      cwd: fileURLToPath(new URL('../../go/versitygw', import.meta.url)),
      env: buildGoEnvironment(go.toolchain, cache, env),
      logFile: join(logs, 'versitygw-build.log'),
      timeoutMs: 2 * hourMs,
      isBackground: true,
      signal,
    })
  }
  return join(await ensureEntry(cache, key, fill, options.signal === undefined ? {} : { signal: options.signal }), 'versitygw')
}

export async function startS3(options: S3Options): Promise<S3Server> {
  const command = await ensureVersitygw(options)
  const [port] = await freePorts(1)
  const address: S3Address = {
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    accessKey: 'test-access-key',
    secretAccessKey: 'test-secret-access-key',
    bucket: 'warehouse',
  }
  const [data, meta] = [join(options.dir, 'data'), join(options.dir, 'meta')]
  // A folder of the first level is a bucket.
  await mkdir(join(data, address.bucket), { recursive: true })
  await mkdir(meta, { recursive: true })
  const server = await startDataServer({
    name: 'versitygw',
    command,
    args: ['--port', `127.0.0.1:${port}`, '--region', address.region, '--health', '/health', 'posix', '--sidecar', meta, data],
    dir: options.dir,
    env: { ROOT_ACCESS_KEY: address.accessKey, ROOT_SECRET_KEY: address.secretAccessKey },
    ready: { url: `${address.endpoint}/health` },
    ...(options.signal ? { signal: options.signal } : {}),
  })
  return Object.assign(Object.create(server) as DataServer, { address })
}
