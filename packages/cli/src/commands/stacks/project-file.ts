// The project file `brokkr.yaml` in the working directory: defaults of `brokkr apply`. It comes with the code of others, so it can
// name neither a broker nor a PAK.
import { readFile } from 'node:fs/promises'
import { parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { Drift } from '@brokkr/contract/stacks/stack.ts'
import { z } from 'zod'
import { CliError, exitCodes } from '../../output.ts'
import { suggest } from '../../suggest.ts'
import { projectFileName } from './read-manifests.ts'

const Project = z.strictObject({
  stack: z.string().min(1).max(255).optional(),
  generator: z.string().min(1).max(255).optional(),
  labels: z.array(z.string().max(255)).max(64).optional(),
  drift: Drift.optional(),
})
export type Project = z.output<typeof Project>

const bytesMax = 65_536
/** Words that would send requests or a credential elsewhere. */
const forbidden = /^(broker|broker_?url|url|address|pak|pak_?file|key|token|context|kubeconfig|credential)s?$/i

export async function readProject(): Promise<Project> {
  const text = await readFile(projectFileName, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw refused('the project file cannot be read', projectFileName, error.message, 'correct or remove the file')
  })
  return text === null ? {} : parseProject(text)
}

export function parseProject(text: string): Project {
  if (text.length > bytesMax)
    throw refused(
      'the project file is too large',
      projectFileName,
      `it has more than ${bytesMax} characters`,
      'remove what is not a setting',
    )
  const [document] = parseSettings(text)
  if (document === undefined) return {}
  for (const key of Object.keys(document)) {
    const where = `${projectFileName} line ${lineOf(text, key)}`
    if (forbidden.test(key))
      throw refused(
        `the project file sets ${key}`,
        where,
        'a project file comes with the code of others and may name neither a broker nor a key',
        'remove the line; use brokkr login, --broker or --pak-file',
      )
    if (!(key in Project.shape)) {
      const similar = suggest(key, Object.keys(Project.shape))
      const known = `known: ${Object.keys(Project.shape).join(', ')}`
      throw refused(`unknown setting ${key}`, where, known, similar === null ? 'remove the line' : `did you mean ${similar}?`)
    }
  }
  const parsed = Project.safeParse(document)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const key = String(issue?.path[0] ?? '')
  throw refused(`the setting ${key} is wrong`, `${projectFileName} line ${lineOf(text, key)}`, issue?.message ?? '', 'correct the line')
}

function parseSettings(text: string): Record<string, unknown>[] {
  try {
    return parseManifest(text).map(({ object }) => object as Record<string, unknown>)
  } catch (error) {
    throw refused('the project file is not YAML', projectFileName, (error as Error).message, 'correct the file')
  }
}

const lineOf = (text: string, key: string): number =>
  text.split('\n').findIndex((line) => line.trimStart().replace(/^["']/, '').startsWith(key)) + 1

const refused = (message: string, where: string, why: string, next: string): CliError =>
  new CliError(message, { where, next, exitCode: exitCodes.usage, cause: new Error(why) })
