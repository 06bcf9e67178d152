// Installs programs that come as Python wheels, by their names and pinned hashes, into a plain folder. A virtual environment contains
// its own path, so the cache could not rename it.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { runTool } from '../supervisor/run-tool.ts'
import { dropUndefined } from './go-environment.ts'

export type WheelOptions = {
  /** The python3 to run. */
  python: string
  /** A requirements file with a hash for every wheel. */
  requirements: string
  dir: string
  env: NodeJS.ProcessEnv
  signal: AbortSignal
}

const limitMs = 600_000

export async function installWheels({ python, requirements, dir, env, signal }: WheelOptions): Promise<void> {
  const install = ['-m', 'pip', 'install', '--require-hashes', '--no-deps', '--only-binary=:all:', '--no-input', '--target', dir]
  const run = (command: string, args: readonly string[]) =>
    runTool({ name: 'pip', command, args, cwd: dir, env: dropUndefined(env), logFile: join(dir, 'pip.log'), timeoutMs: limitMs, signal })
  const from = ['--requirement', requirements]
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
