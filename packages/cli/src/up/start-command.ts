// Finds the command that starts a program of this installation: the built program if BROKKR_PROGRAMS names a description (`npm
// start` sets it), else this command line.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { readCliEnvironment } from '../config.ts'

export interface StartCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}
interface Description {
  readonly programs: Readonly<
    Record<string, { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> } | undefined>
  >
}

export function findStartCommand(name: string, env: NodeJS.ProcessEnv = process.env): StartCommand {
  const file = readCliEnvironment(env).BROKKR_PROGRAMS
  const built = file === null ? undefined : (JSON.parse(readFileSync(file, 'utf8')) as Description).programs[name]
  if (built !== undefined) return { command: process.execPath, args: built.args, env: built.env }
  const main = process.argv[1] ?? fileURLToPath(new URL('../main.ts', import.meta.url))
  return { command: process.execPath, args: [main, name], env: {} }
}
