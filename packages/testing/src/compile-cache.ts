// Programs of ours start hundreds of times in a run. What Node made of their sources is kept between them: a start costs half of it.
import { join } from 'node:path'
import { cacheDir } from '@brokkr/local/assets/cache.ts'

export type CompileCache = { readonly flags: readonly string[]; readonly env: Readonly<Record<string, string>> }

/** For programs that tests start; a benchmark measures them as they are shipped. */
export function compileCache(environment: NodeJS.ProcessEnv = process.env): CompileCache {
  if (environment['VITEST'] === undefined) return { flags: [], env: {} }
  return {
    flags: ['--import', new URL('keep-compiled.ts', import.meta.url).href],
    env: { NODE_COMPILE_CACHE: join(cacheDir(environment), 'compile') },
  }
}
