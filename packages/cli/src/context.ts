// Selects broker and PAK: flags, then environment, then the context that `brokkr up` or `brokkr login` saved in the user's
// configuration directory.
// Files of the working directory select neither. A saved PAK is sent only to the origin that it was saved with, and no PAK is sent
// over plain HTTP to another machine.
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Client, createClient } from '@brokkr/client'
import { z } from 'zod'
import type { Globals } from './cli.ts'
import { readCliEnvironment } from './config.ts'
import { CliError, exitCodes } from './output.ts'
import { suggest } from './suggest.ts'

/** `kubeconfig`: the cluster that `brokkr up` uses. */
const Context = z.object({ broker: z.string(), pak_file: z.string(), kubeconfig: z.string().optional() })
export type Context = z.output<typeof Context>
const Contexts = z.object({ current: z.string().nullable(), contexts: z.record(z.string(), Context) })
export type Contexts = z.output<typeof Contexts>

/** Name of the context that `brokkr up` saves. */
const localContext = 'local'

export const contextFile = (env: NodeJS.ProcessEnv = process.env): string =>
  join(readCliEnvironment(env).XDG_CONFIG_HOME ?? join(homedir(), '.config'), 'brokkr', 'context.json')

export async function openClient(globals: Globals, env: NodeJS.ProcessEnv = process.env): Promise<Client> {
  const { broker, pak } = await chooseBroker(globals, env)
  return createClient({ baseUrl: broker, pak: () => pak, userAgent: 'brokkr-cli' })
}

export async function chooseBroker(globals: Globals, env: NodeJS.ProcessEnv = process.env): Promise<{ broker: string; pak: string }> {
  const saved = await findContext(env)
  const { BROKKR_BROKER_URL: envBroker, BROKKR_PAK_FILE: envPakFile } = readCliEnvironment(env)
  const broker = globals.broker ?? envBroker ?? saved?.broker
  const pakFile = globals.pakFile ?? envPakFile ?? saved?.pak_file
  if (broker === undefined || pakFile === undefined)
    throw usage('no broker is configured', contextFile(env), 'brokkr up, brokkr login URL, or --broker URL --pak-file FILE')
  const url = parseBrokerUrl(broker)
  const isSavedPak = globals.pakFile === undefined && envPakFile === null
  if (isSavedPak && saved !== null && url.origin !== parseBrokerUrl(saved.broker).origin)
    throw usage(`the saved PAK belongs to ${saved.broker} and is not sent to ${url.origin}`, contextFile(env), '--pak-file FILE')
  return { broker, pak: (await readPak(pakFile)).trim() }
}

/** The context that is named, else the current one. */
async function findContext(env: NodeJS.ProcessEnv): Promise<Context | null> {
  const { current, contexts } = await readContexts(env)
  const named = readCliEnvironment(env).BROKKR_CONTEXT
  if (named === null) return current === null ? null : (contexts[current] ?? null)
  return contexts[named] ?? failUnknown(named, contexts)
}

export function failUnknown(name: string, contexts: Contexts['contexts']): never {
  const similar = suggest(name, Object.keys(contexts))
  throw new CliError(`context not found: ${name}`, {
    next: similar === null ? 'brokkr context' : `did you mean ${similar}? All: brokkr context`,
    exitCode: exitCodes.notFound,
  })
}

/** The cluster of the saved context; null if another broker is named, because the context does not know its cluster. */
export async function findContextKubeconfig(globals: Globals, env: NodeJS.ProcessEnv = process.env): Promise<string | null> {
  const saved = await findContext(env)
  const broker = globals.broker ?? readCliEnvironment(env).BROKKR_BROKER_URL
  const isSaved = broker === undefined || broker === null || broker === saved?.broker
  return isSaved ? (saved?.kubeconfig ?? null) : null
}

const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

export function parseBrokerUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw usage('the address of the broker is invalid', text, 'give it as https://host[:port]')
  if (url.protocol === 'http:' && !loopback.test(url.hostname))
    throw usage('plain HTTP would send the PAK unencrypted', url.origin, `use https://${url.host}`)
  return url
}

const usage = (message: string, where: string, next: string): CliError => new CliError(message, { where, next, exitCode: exitCodes.usage })

async function readPak(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    throw new CliError('the PAK file cannot be read', {
      where: file,
      next: 'name a file that contains a PAK: --pak-file FILE',
      exitCode: exitCodes.usage,
      cause,
    })
  }
}

/** Reads also the file of an older release, which holds one context. */
export async function readContexts(env: NodeJS.ProcessEnv = process.env): Promise<Contexts> {
  const text = await readFile(contextFile(env), 'utf8').catch(() => null)
  if (text === null) return { current: null, contexts: {} }
  const value = parseOrNull(text)
  const parsed = Contexts.safeParse(value)
  if (parsed.success) return parsed.data
  const single = Context.safeParse(value)
  if (single.success) return { current: localContext, contexts: { [localContext]: single.data } }
  throw usage('the saved contexts cannot be read', contextFile(env), 'remove the file, then brokkr up or brokkr login')
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Saves a context and makes it the current one. */
export async function saveContext(context: Context, env: NodeJS.ProcessEnv = process.env, name: string = localContext): Promise<void> {
  const { contexts } = await readContexts(env).catch(() => ({ contexts: {} }))
  await writeContexts({ current: name, contexts: { ...contexts, [name]: context } }, env)
}

/** Replaces the file atomically; only its owner can read it. */
export async function writeContexts(contexts: Contexts, env: NodeJS.ProcessEnv = process.env): Promise<void> {
  const file = contextFile(env)
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${process.pid}.tmp`
  await writeFile(draft, `${JSON.stringify(contexts, null, 2)}\n`, { mode: 0o600 })
  await chmod(draft, 0o600)
  await rename(draft, file)
}
