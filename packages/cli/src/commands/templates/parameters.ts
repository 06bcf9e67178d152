// Files and parameters of templates on the command line.
import { readFile, stat } from 'node:fs/promises'
import { CliError, exitCodes } from '../../output.ts'

const fileBytesMax = 1024 * 1024

export interface ParameterOptions {
  readonly set: readonly string[]
  readonly parameters?: string
}

/** Of the file, then of `--set`. */
export const readParameters = async ({ set, parameters }: ParameterOptions): Promise<Record<string, unknown>> => ({
  ...(parameters === undefined ? {} : parseParameters(await readText(parameters), parameters)),
  ...Object.fromEntries(set.map(parseSetting)),
})

/** Without a file, every object of parameters fits. */
export const readSchema = async (file: string | undefined): Promise<string> => (file === undefined ? '{"type":"object"}' : readText(file))

/** `replicas=3` is a number, `name="3"` and `name=web` are texts. */
export function parseSetting(text: string): [string, unknown] {
  const at = text.indexOf('=')
  if (at < 1) throw new CliError(`--set ${text} has no value`, { next: '--set NAME=VALUE', exitCode: exitCodes.usage })
  const value = text.slice(at + 1)
  try {
    return [text.slice(0, at), JSON.parse(value) as unknown]
  } catch {
    return [text.slice(0, at), value]
  }
}

function parseParameters(text: string, file: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text) as unknown
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // Reported below.
  }
  throw new CliError('the parameters are not a JSON object', {
    where: file,
    next: 'give a file such as {"replicas": 3}',
    exitCode: exitCodes.usage,
  })
}

export async function readText(file: string): Promise<string> {
  const fail = (cause: unknown): never => {
    throw new CliError('the file cannot be read', {
      where: file,
      next: 'name a text file of at most 1 MiB',
      exitCode: exitCodes.usage,
      cause,
    })
  }
  const { size } = await stat(file).catch(fail)
  if (size > fileBytesMax) fail(new Error(`it has ${size} bytes`))
  return readFile(file, 'utf8').catch(fail)
}
