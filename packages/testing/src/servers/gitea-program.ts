// The program of Gitea, built once from its Go module and cached. go/gitea/go.sum pins the module, and the module's own go.sum pins what it
// needs. A build takes ten minutes of a processor; templates and options are read from the module's files.
import { cp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir, ensureEntry } from '@brokkr/local/assets/cache.ts'
import { findGo } from '@brokkr/local/assets/go-toolchain.ts'
import { runGo } from './run-go.ts'

export const giteaVersion = '1.26.0'

export interface GiteaProgram {
  readonly program: string
  /** With `templates`, `options` and `public`. */
  readonly staticDir: string
}

export interface GiteaProgramOptions {
  readonly env?: NodeJS.ProcessEnv
  readonly signal?: AbortSignal
  readonly onProgress?: (detail: string) => void
}

const staticParts = ['templates', 'options', 'public']

export async function ensureGitea(options: GiteaProgramOptions = {}): Promise<GiteaProgram> {
  const env = options.env ?? process.env
  const cache = cacheDir(env)
  const key = `gitea/${giteaVersion}-${process.platform}-${process.arch}`
  const signal = options.signal === undefined ? {} : { signal: options.signal }
  const dir = await ensureEntry(cache, key, (tmpDir) => build(tmpDir, { ...options, env, cache }), signal)
  return { program: join(dir, 'gitea'), staticDir: dir }
}

type Build = GiteaProgramOptions & { env: NodeJS.ProcessEnv; cache: string }

async function build(dir: string, options: Build): Promise<void> {
  const go = await findGo(options)
  const wrapper = fileURLToPath(new URL('../../go/gitea', import.meta.url))
  const run = (step: string, cwd: string, args: readonly string[]) => runGo(go, { ...options, peer: 'gitea', step, cwd, args })
  options.onProgress?.('downloading the module of Gitea')
  const [, module = ''] = /"Dir": "(.*)"/.exec(await run('download', wrapper, ['mod', 'download', '-json'])) ?? []
  // A module in the module cache cannot be built there: its go.mod has replacements.
  const source = join(dir, 'source')
  await cp(module, source, { recursive: true })
  options.onProgress?.('compiling Gitea, which takes ten minutes of a processor')
  const flags = `-s -w -X main.Version=${giteaVersion}`
  await run('build', source, ['build', '-ldflags', flags, '-o', join(dir, 'gitea'), '.'])
  for (const part of staticParts) await rename(join(source, part), join(dir, part))
  await rm(source, { recursive: true })
}
