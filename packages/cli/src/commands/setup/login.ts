// brokkr login | logout | context: which broker and PAK the commands use. A PAK is read from a file or standard input, never from an
// argument, where other users of the machine could see it.
import { mkdir, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text as readStream } from 'node:stream/consumers'
import { createClient } from '@brokkr/client'
import { hashPak } from '@brokkr/contract/auth/pak.ts'
import { writeSecret } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { contextFile, failUnknown, parseBrokerUrl, readContexts, saveContext, writeContexts } from '../../context.ts'
import { CliError, exitCodes, print, printError } from '../../output.ts'
import { show } from '../../show.ts'

interface LoginOptions {
  readonly name?: string
  readonly link?: boolean
}

/** Stores the PAK only after the broker has accepted it. */
export async function login(cli: Cli, [address]: readonly string[], options: LoginOptions): Promise<void> {
  if (options.link === true) return printLink(cli)
  if (address === undefined)
    throw new CliError('no broker is named', { next: 'brokkr login URL, or brokkr login --link', exitCode: exitCodes.usage })
  const url = parseBrokerUrl(address)
  const name = options.name ?? url.hostname
  if (!/^[\w.-]{1,100}$/.test(name))
    throw new CliError(`${JSON.stringify(name)} is not a name of a context`, {
      next: 'use letters, digits, dots and hyphens',
      exitCode: exitCodes.usage,
    })
  const pak = await readPak(cli)
  if ((await hashPak(pak)) === null)
    throw new CliError('this is not a PAK', {
      where: cli.globals.pakFile ?? 'standard input',
      next: 'a PAK has the form brokkr_BR…_…; get one with: brokkr access create NAME',
      exitCode: exitCodes.usage,
    })
  const owner = await createClient({ baseUrl: url.origin, pak: () => pak, userAgent: 'brokkr-cli' }).verifyPak({})
  const file = join(dirname(contextFile(cli.env)), `${name}.pak`)
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await rm(file, { force: true })
  await writeSecret(file, pak)
  await saveContext({ broker: url.origin, pak_file: file }, cli.env, name)
  const who = owner.admin ? 'admin' : owner.generator !== null ? 'generator' : 'agent'
  print(`signed in to ${url.origin} as ${who}${owner.readonly ? ', read only' : ''}; context ${name} is in use`)
}

/** A link that signs a browser in once, with the rights of the PAK in use. */
async function printLink(cli: Cli): Promise<void> {
  const link = await (await cli.client()).createLoginLink({ body: {} })
  printError(`one use, valid until ${link.expires_at}:`)
  print(link.url)
}

async function readPak(cli: Cli): Promise<string> {
  const file = cli.globals.pakFile
  if (file !== undefined)
    return (
      await readFile(file, 'utf8').catch((cause: unknown) => {
        throw new CliError('the PAK file cannot be read', { where: file, next: '--pak-file FILE', exitCode: exitCodes.usage, cause })
      })
    ).trim()
  if (process.stdin.isTTY) printError('paste the PAK, then press Enter and Ctrl-D:')
  return (await readStream(process.stdin)).trim()
}

/** Forgets a context, and its PAK if `login` stored it. The PAK stays valid: revoke it with `brokkr access revoke`. */
export async function logout(cli: Cli, [given]: readonly string[]): Promise<void> {
  const { current, contexts } = await readContexts(cli.env)
  const name = given ?? current
  if (name === null || name === undefined) return print('no context is in use')
  const context = contexts[name] ?? failUnknown(name, contexts)
  const { [name]: _removed, ...rest } = contexts
  await writeContexts({ current: current === name ? null : current, contexts: rest }, cli.env)
  if (dirname(context.pak_file) === dirname(contextFile(cli.env))) await rm(context.pak_file, { force: true })
  return print(`context ${name} is removed; its PAK stays valid until it is revoked`)
}

export async function listContexts(cli: Cli, _args: readonly string[], options: { output: Form }): Promise<void> {
  const { current, contexts } = await readContexts(cli.env)
  const entries = Object.entries(contexts)
  show(options.output, {
    value: { current, contexts },
    names: entries.map(([name]) => name),
    table: () => ({
      head: ['IN USE', 'NAME', 'BROKER', 'PAK FILE'],
      rows: entries.map(([name, { broker, pak_file }]) => [name === current ? '*' : '', name, broker, pak_file]),
    }),
  })
}

export async function selectContext(cli: Cli, [name = '']: readonly string[]): Promise<void> {
  const { contexts } = await readContexts(cli.env)
  const { broker } = contexts[name] ?? failUnknown(name, contexts)
  await writeContexts({ current: name, contexts }, cli.env)
  print(`context ${name} is in use: ${broker}`)
}
