// brokkr agents invite NAME: creates a join token and prints the command that joins a cluster with it.
import type { AgentInvite, Preset } from '@brokkr/contract/invites/agent-invite.ts'
import { change } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions } from '../../command.ts'
import { chooseBroker } from '../../context.ts'
import { parseDuration } from '../../duration.ts'
import { requireGenerator } from '../../names.ts'
import { CliError, exitCodes, printError } from '../../output.ts'
import { show } from '../../show.ts'

export interface InviteOptions extends ChangeOptions {
  readonly cluster?: string
  readonly label: readonly string[]
  readonly generator: readonly string[]
  readonly preset: Preset
  readonly uses: string
  readonly valid: string
}
export type Invite = AgentInvite & { readonly token: string }

export async function inviteAgent(cli: Cli, [name = '']: readonly string[], options: InviteOptions): Promise<void> {
  const invite = await change(options, `create an invite for agent ${name}`, () => createInvite(cli, name, options))
  if (invite === null) return
  const { broker } = await chooseBroker(cli.globals, cli.env)
  const command = joinCommand(broker, invite.token)
  if (options.output === 'table' || options.output === 'wide')
    printError(`Run where kubectl reaches the cluster. Uses: ${invite.uses}, valid until ${invite.expires_at}:`)
  show(options.output, { value: invite, names: [invite.id], lines: () => [command] })
}

/** A name that ends in * is a prefix: each agent chooses the rest. */
export async function createInvite(cli: Cli, name: string, options: InviteOptions): Promise<Invite> {
  const uses = Number(options.uses)
  if (!Number.isInteger(uses) || uses < 1 || uses > 1000)
    throw new CliError(`--uses ${options.uses} is not a number from 1 to 1000`, { next: '--uses 20', exitCode: exitCodes.usage })
  const client = await cli.client()
  const generators = await Promise.all(options.generator.map((one) => requireGenerator(client, one)))
  const isPrefix = name.endsWith('*')
  return client.createAgentInvite({
    body: {
      ...(isPrefix ? { name_prefix: name.slice(0, -1) } : { name, cluster_name: options.cluster ?? name }),
      labels: [...options.label],
      generator_ids: generators.map(({ id }) => id),
      preset: options.preset,
      uses,
      expires_in_seconds: Math.ceil(parseDuration(options.valid, '--valid') / 1000),
    },
  })
}

/** The token is in a header, never in the address. */
export const joinCommand = (broker: string, token: string): string =>
  `curl -fsS -H 'Authorization: Join ${token}' ${broker.replace(/\/+$/, '')}/api/v1/join/manifest | kubectl apply -f -`
