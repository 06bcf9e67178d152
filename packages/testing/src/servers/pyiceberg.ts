// pyiceberg, an independent reader of Iceberg tables. A cache entry that pip filled with pinned wheels; python3 (3.11 or newer) runs it.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, ensureEntry } from '@brokkr/local/assets/cache.ts'
import { installWheels } from '@brokkr/local/assets/python-wheels.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { findCommand } from '@brokkr/local/supervisor/spawn-owned.ts'
import type { NessieNamespace } from './nessie.ts'

export const pyicebergVersion = '0.12.0'

/** Integers, decimals and times are texts. */
export type PyicebergTable = {
  readonly types: Readonly<Record<string, string>>
  readonly rows: readonly Readonly<Record<string, unknown>>[]
}

/** `filter`: a condition such as `id > 5`, by which it leaves out files. */
export async function readByPyiceberg(place: NessieNamespace, table: string, filter?: string): Promise<PyicebergTable> {
  const modules = await ensurePyiceberg()
  const folder = await mkdtemp(join(tmpdir(), 'brokkr-pyiceberg-'))
  const logFile = join(folder, 'output.log')
  const program = fileURLToPath(new URL('../../python/read_iceberg.py', import.meta.url))
  const { url, warehouse, namespace, s3 } = place
  const settings = {
    catalog: {
      type: 'rest',
      uri: `${url}/iceberg`,
      warehouse,
      'py-io-impl': 'pyiceberg.io.pyarrow.PyArrowFileIO',
      's3.endpoint': s3.endpoint,
      's3.region': s3.region,
      's3.access-key-id': s3.accessKey,
      's3.secret-access-key': s3.secretAccessKey,
      's3.remote-signing-enabled': 'false',
    },
    table: `${namespace}.${table}`,
    scan: filter === undefined ? {} : { row_filter: filter },
  }
  const env = { PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: '1', BROKKR_ICEBERG: JSON.stringify(settings) }
  try {
    const command = requirePython(process.env)
    await runTool({ name: 'pyiceberg', command, args: [program], cwd: folder, env, logFile, timeoutMs: 300_000 })
    const line = (await readFile(logFile, 'utf8')).split('\n').find((one) => one.startsWith('RESULT '))
    return JSON.parse(line?.slice('RESULT '.length) ?? 'null') as PyicebergTable
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The folder with its modules. */
export function ensurePyiceberg(options: { env?: NodeJS.ProcessEnv; signal?: AbortSignal } = {}): Promise<string> {
  const env = options.env ?? process.env
  const python = requirePython(env)
  const requirements = fileURLToPath(new URL('../../python/pyiceberg.txt', import.meta.url))
  const fill = (dir: string, signal: AbortSignal) => installWheels({ python, requirements, dir, env, signal })
  const key = `pyiceberg/${pyicebergVersion}-${process.platform}-${process.arch}`
  return ensureEntry(cacheDir(env), key, fill, options.signal === undefined ? {} : { signal: options.signal })
}

function requirePython(env: NodeJS.ProcessEnv): string {
  const python = findCommand('python3', env['PATH'] ?? '')
  if (python === undefined) throw new Error('pyiceberg needs python3 (3.11 or newer) on PATH: install it')
  return python
}
