// The program of Helm, built once from its Go module and cached. go/helm/go.sum pins the module and everything it needs. A build takes six
// minutes of a processor without compiled packages of Kubernetes, less with them.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, ensureEntry } from '@brokkr/local/assets/cache.ts'
import { findGo } from '@brokkr/local/assets/go-toolchain.ts'
import { runGo } from './run-go.ts'

export const helmVersion = 'v4.3.1'

export interface HelmProgramOptions {
  readonly env?: NodeJS.ProcessEnv
  readonly signal?: AbortSignal
  readonly onProgress?: (detail: string) => void
}

/** Path of the program. */
export async function ensureHelm(options: HelmProgramOptions = {}): Promise<string> {
  const env = options.env ?? process.env
  const cache = cacheDir(env)
  const key = `helm/${helmVersion}-${process.platform}-${process.arch}`
  const signal = options.signal === undefined ? {} : { signal: options.signal }
  const dir = await ensureEntry(cache, key, (tmpDir) => build(tmpDir, { ...options, env, cache }), signal)
  return join(dir, 'helm')
}

async function build(dir: string, options: HelmProgramOptions & { env: NodeJS.ProcessEnv; cache: string }): Promise<void> {
  const go = await findGo(options)
  const cwd = fileURLToPath(new URL('../../go/helm', import.meta.url))
  const run = (step: string, args: readonly string[]) => runGo(go, { ...options, peer: 'helm', step, cwd, args })
  options.onProgress?.('downloading the modules of Helm')
  await run('download', ['mod', 'download'])
  options.onProgress?.('compiling Helm, which takes six minutes of a processor')
  const flags = `-s -w -X helm.sh/helm/v4/internal/version.version=${helmVersion}`
  await run('build', ['build', '-ldflags', flags, '-o', join(dir, 'helm'), 'helm.sh/helm/v4/cmd/helm'])
}
