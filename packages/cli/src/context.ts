// Which broker, with which key: flags, then environment, then what `brokkr up` left in the user's own configuration folder.
// Files of a working directory never choose a broker or a key.
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Client, createClient } from '@brokkr/contract/client.ts'
import { z } from 'zod'
import type { Globals } from './main.ts'
import { CliError } from './output.ts'

const Context = z.object({ broker: z.string(), pak_file: z.string() })
export type Context = z.output<typeof Context>

export const contextFile = (env: NodeJS.ProcessEnv = process.env): string =>
  join(env['XDG_CONFIG_HOME'] ?? join(homedir(), '.config'), 'brokkr', 'context.json')

export async function openClient(globals: Globals, env: NodeJS.ProcessEnv = process.env): Promise<Client> {
  const kept = await readContext(env)
  const broker = globals.broker ?? env['BROKKR_BROKER_URL'] ?? kept?.broker
  const pakFile = globals.pakFile ?? env['BROKKR_PAK_FILE'] ?? kept?.pak_file
  if (broker === undefined || pakFile === undefined) {
    throw new CliError('no broker is known', { where: contextFile(env), next: 'brokkr up, or --broker URL --pak-file FILE', exitCode: 2 })
  }
  const pak = (await readKey(pakFile)).trim()
  return createClient({ baseUrl: broker, pak: () => pak, userAgent: 'brokkr-cli' })
}

async function readKey(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    throw new CliError('the key cannot be read', { where: file, next: 'name a file that holds a key: --pak-file FILE', exitCode: 2, cause })
  }
}

async function readContext(env: NodeJS.ProcessEnv): Promise<Context | null> {
  const text = await readFile(contextFile(env), 'utf8').catch(() => null)
  if (text === null) return null
  const parsed = Context.safeParse(parseOrNull(text))
  if (!parsed.success)
    throw new CliError('the saved context cannot be read', {
      where: contextFile(env),
      next: 'remove the file, then brokkr up',
      exitCode: 2,
    })
  return parsed.data
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Remembers where `brokkr up` serves; renamed into place, readable by its owner alone. */
export async function saveContext(context: Context, env: NodeJS.ProcessEnv = process.env): Promise<void> {
  const file = contextFile(env)
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${process.pid}.tmp`
  await writeFile(draft, `${JSON.stringify(context, null, 2)}\n`, { mode: 0o600 })
  await chmod(draft, 0o600)
  await rename(draft, file)
}
