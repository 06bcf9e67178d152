// schemathesis, a client that reads an OpenAPI document, sends requests for every operation and compares the answers with it. A cache
// entry that pip filled with pinned wheels; python3 (3.11 or newer) runs it.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, ensureEntry } from '@brokkr/local/assets/cache.ts'
import { installWheels } from '@brokkr/local/assets/python-wheels.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { findCommand } from '@brokkr/local/supervisor/spawn-owned.ts'

export const schemathesisVersion = '4.32.5'

export type SchemathesisOptions = {
  /** Address of the OpenAPI document. */
  document: string
  headers: Readonly<Record<string, string>>
  /** Ids of the operations to call: all but these, or these alone. */
  operations: { readonly without: readonly string[] } | { readonly only: readonly string[] }
  /** Statuses from 500 on that are no failure where the document lists them. */
  allowedStatuses: readonly number[]
  limitMs: number
}
export type SchemathesisRun = {
  readonly isClean: boolean
  /** All that it printed: failures, and counts at the end. */
  readonly report: string
}

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
]

export async function runSchemathesis(options: SchemathesisOptions): Promise<SchemathesisRun> {
  const modules = await ensureSchemathesis()
  const folder = await mkdtemp(join(tmpdir(), 'brokkr-schemathesis-'))
  const logFile = join(folder, 'output.log')
  const headers = Object.entries(options.headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`])
  const operations = filterArguments(options.operations)
  // Requests that cover the document systematically: each rule of each field, kept and broken. Nothing is random.
  const run = ['run', ...headers, ...operations, '--phases', 'coverage', '--generation-deterministic', '--checks', checks.join(',')]
  const bounds = ['--workers', '1', '--request-timeout', '30', '--continue-on-failure']
  try {
    await writeFile(join(folder, 'schemathesis.toml'), settingsText(options.allowedStatuses))
    const args = ['-m', 'schemathesis.cli', '--no-color', ...run, ...bounds, options.document]
    const env = { PYTHONPATH: modules, PYTHONDONTWRITEBYTECODE: '1' }
    const command = requirePython(process.env)
    const tool = { name: 'schemathesis', command, args, cwd: folder, env, logFile, timeoutMs: options.limitMs }
    const isClean = await runTool(tool).then(
      () => true,
      // Exit code 1 is a run with failures; its output names them.
      (error: Error) => (error.message.startsWith('schemathesis ended with 1:') ? false : Promise.reject(error)),
    )
    return { isClean, report: await readFile(logFile, 'utf8') }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function filterArguments(operations: SchemathesisOptions['operations']): string[] {
  if ('only' in operations) return operations.only.flatMap((id) => ['--include-operation-id', id])
  return operations.without.flatMap((id) => ['--exclude-operation-id', id])
}

const settingsText = (allowedStatuses: readonly number[]): string =>
  `[checks]\nnot_a_server_error.expected-statuses = ${JSON.stringify(['2xx', '3xx', '4xx', ...allowedStatuses.map(String)])}\n`

/** The folder with its modules. */
export function ensureSchemathesis(options: { env?: NodeJS.ProcessEnv; signal?: AbortSignal } = {}): Promise<string> {
  const env = options.env ?? process.env
  const python = requirePython(env)
  const requirements = fileURLToPath(new URL('../../python/schemathesis.txt', import.meta.url))
  const fill = (dir: string, signal: AbortSignal) => installWheels({ python, requirements, dir, env, signal })
  const key = `schemathesis/${schemathesisVersion}-${process.platform}-${process.arch}`
  return ensureEntry(cacheDir(env), key, fill, options.signal === undefined ? {} : { signal: options.signal })
}

function requirePython(env: NodeJS.ProcessEnv): string {
  const python = findCommand('python3', env['PATH'] ?? '')
  if (python === undefined) throw new Error('schemathesis needs python3 (3.11 or newer) on PATH: install it')
  return python
}
