// brokkr access create | rotate | revoke | whoami | can-i | revoke-invite.
import { ApiError, type Client } from '@brokkr/client'
import { type Access, type AdminPak, Verb } from '@brokkr/contract/auth/admin-pak.ts'
import { change, confirm, giveSecret, requireNewFile } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions, Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { failNotFound, requireStack } from '../../names.ts'
import { CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { suggest } from '../../suggest.ts'

interface CreateOptions extends ChangeOptions {
  readonly scope?: string
  readonly readonly?: boolean
  readonly valid?: string
  readonly out?: string
}

export async function createPak(cli: Cli, [name = '']: readonly string[], options: CreateOptions): Promise<void> {
  await requireNewFile(options.out)
  const scope = options.scope === undefined ? null : parseScope(options.scope)
  const expires_at = options.valid === undefined ? null : new Date(Date.now() + parseDuration(options.valid, '--valid')).toISOString()
  const client = await cli.client()
  const body = {
    name,
    ...(options.readonly === true ? { readonly: true } : {}),
    ...(scope === null ? {} : { scope }),
    ...(expires_at === null ? {} : { expires_at }),
  }
  const done = await change(options, `create admin PAK ${name}`, () => client.createAdminPak({ body }))
  if (done !== null) await giveSecret(options, { what: `admin PAK ${name} created`, text: done.pak, value: done })
}

function parseScope(text: string): Verb[] {
  return text.split(',').map((word) => parseVerb(word.trim()))
}

export async function rotatePak(cli: Cli, [name = '']: readonly string[], options: ChangeOptions & { out?: string }): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  const { id } = await requirePak(client, name)
  await confirm(options, name, [`replaces admin PAK ${name}; the old one, its sessions and its streams end at once`])
  const done = await change(options, `replace admin PAK ${name}`, () => client.rotateAdminPak({ params: { id } }))
  if (done !== null) await giveSecret(options, { what: `admin PAK ${name} was replaced`, text: done.pak, value: done })
}

export async function revokePak(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const { id } = await requirePak(client, name)
  await confirm(options, name, [`revokes admin PAK ${name}; its sessions and streams end at once`])
  const done = await change(options, `revoke admin PAK ${name}`, async () => {
    await client.revokeAdminPak({ params: { id } })
    return { id, name, revoked: true }
  })
  if (done !== null) show(options.output, { value: done, names: [name], lines: () => [`admin PAK ${name} revoked`] })
}

async function requirePak(client: Client, name: string): Promise<AdminPak> {
  const paks = await client.listAdminPaks({})
  const found = paks.find((one) => one.name === name || one.short_token === name)
  if (found !== undefined) return found
  return failNotFound({
    what: 'admin PAK',
    name,
    next: 'brokkr access list',
    names: async function* () {
      yield* paks
    },
  })
}

export async function whoAmI(cli: Cli, _args: readonly string[], options: { output: Form }): Promise<void> {
  const client = await cli.client()
  const owner = await client.verifyPak({})
  const generator = owner.generator === null ? null : (await client.getGenerator({ params: { id: owner.generator } })).name
  const agent = owner.agent === null ? null : (await client.getAgent({ params: { id: owner.agent } })).name
  const who = owner.admin
    ? `admin${owner.readonly ? ', read only' : ''}`
    : generator !== null
      ? `generator ${generator}`
      : `agent ${agent ?? '-'}`
  show(options.output, { value: owner, names: [generator ?? agent ?? 'admin'], lines: () => [who] })
}

/** `can-i shop approve`, or `can-i approve` for stacks in general. Exits with 4 if it is not allowed. */
export async function canI(cli: Cli, args: readonly string[], options: { output: Form }): Promise<void> {
  const [stack, verb] = args.length > 1 ? [args[0]!, parseVerb(args[1]!)] : [null, parseVerb(args[0] ?? '')]
  const access = await readAccess(await cli.client(), stack, verb)
  const subject = stack === null ? verb : `${verb} on ${stack}`
  show(options.output, {
    value: access,
    names: [access.allowed ? 'yes' : 'no'],
    lines: () => [access.allowed ? `yes: this PAK may ${subject}` : `no: ${access.reason} (${access.code})`],
  })
  if (!access.allowed) process.exitCode = exitCodes.notAllowed
}

async function readAccess(client: Client, stack: string | null, verb: Verb): Promise<Access> {
  try {
    const rights =
      stack === null
        ? await client.listAccess({})
        : await client.listStackAccess({ params: { id: (await requireStack(client, stack)).id } })
    return rights.find((one) => one.verb === verb)!
  } catch (error) {
    // A stack that the caller may not even read.
    if (!(error instanceof ApiError) || error.status !== 403) throw error
    return { verb, allowed: false, code: error.code, reason: error.message }
  }
}

const parseVerb = (text: string): Verb => {
  const verb = Verb.safeParse(text)
  if (verb.success) return verb.data
  const similar = suggest(text, Verb.options)
  throw new CliError(`${JSON.stringify(text)} is not a verb`, {
    next: similar === null ? `verbs: ${Verb.options.join(', ')}` : `did you mean ${similar}? Verbs: ${Verb.options.join(', ')}`,
    exitCode: exitCodes.usage,
  })
}

export async function revokeInvite(cli: Cli, [id = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const invites: string[] = []
  for await (const invite of client.items('listAgentInvites', {}))
    if (invite.id.startsWith(id) || invite.short_token === id) invites.push(invite.id)
  const [found, second] = invites
  if (found === undefined || second !== undefined)
    throw new CliError(`${invites.length} invites begin with ${id}`, { next: 'brokkr access invites', exitCode: exitCodes.notFound })
  const done = await change(options, `revoke invite ${found}`, async () => {
    await client.revokeAgentInvite({ params: { id: found } })
    return { id: found, revoked: true }
  })
  if (done !== null)
    show(options.output, { value: done, names: [found], lines: () => [`invite ${found} revoked; agents that joined stay`] })
}
