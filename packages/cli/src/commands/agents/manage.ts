// brokkr agents create | label | pause | resume | drain | rotate | remove | approve-prune.
import type { Client } from '@brokkr/client'
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import { change, confirm, giveSecret, requireNewFile } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { requireAgent, requireGenerator, requireStack } from '../../names.ts'
import { CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { waitUntil } from '../../wait.ts'

interface CreateOptions extends ChangeOptions {
  readonly cluster?: string
  readonly label: readonly string[]
  readonly generator: readonly string[]
  readonly out?: string
}

export async function createAgent(cli: Cli, [name = '']: readonly string[], options: CreateOptions): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  const generators = await Promise.all(options.generator.map((one) => requireGenerator(client, one)))
  const body = {
    name,
    cluster_name: options.cluster ?? name,
    status: 'ACTIVE',
    labels: [...options.label],
    generator_ids: generators.map(({ id }) => id),
  }
  const created = await change(options, `create agent ${name}`, () => client.createAgent({ body }))
  if (created !== null) await giveSecret(options, { what: `agent ${name} created`, text: created.initial_pak, value: created })
}

export async function labelAgent(
  cli: Cli,
  [name = '', ...labels]: readonly string[],
  options: ChangeOptions & { remove?: boolean },
): Promise<void> {
  const client = await cli.client()
  const { id } = await requireAgent(client, name)
  const done = await change(
    options,
    `${options.remove === true ? 'remove' : 'add'} labels ${labels.join(', ')} of agent ${name}`,
    async () => {
      const known = new Set((await client.agentsListLabels({ params: { id } })).map(({ label }) => label))
      for (const label of labels)
        if (options.remove === true) await client.agentsRemoveLabel({ params: { id, label } })
        else if (!known.has(label)) await client.agentsAddLabel({ params: { id }, body: { agent_id: id, label } })
      return client.agentsListLabels({ params: { id } })
    },
  )
  if (done !== null)
    show(options.output, {
      value: done,
      names: [name],
      lines: () => [`agent ${name}: ${done.map(({ label }) => label).join(', ') || 'no label'}`],
    })
}

export const setAgentStatus =
  (status: 'ACTIVE' | 'INACTIVE') =>
  async (cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> => {
    const client = await cli.client()
    await changeStatus(client, await requireAgent(client, name), status, options)
  }

async function changeStatus(client: Client, agent: Agent, status: string, options: ChangeOptions): Promise<Agent | null> {
  const verb = status === 'ACTIVE' ? 'resume' : 'pause'
  const done = await change(options, `${verb} agent ${agent.name}`, () =>
    client.updateAgent({ params: { id: agent.id }, body: { status } }),
  )
  if (done !== null) show(options.output, { value: done, names: [agent.name], lines: () => [`agent ${agent.name} is ${done.status}`] })
  return done
}

/** Pauses, then waits until claimed work orders have ended. */
export async function drainAgent(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const agent = await requireAgent(client, name)
  if ((await changeStatus(client, agent, 'INACTIVE', options)) === null) return
  await waitUntil(cli, client, {
    what: `the work of ${name}`,
    next: `brokkr describe agent ${name}`,
    scope: [`agent:${agent.id}`],
    timeout: options.timeout ?? '5m',
    check: async () => {
      const { record } = await client.getAgentFleetStatus({ params: { id: agent.id } })
      return record.claimed_work_orders === 0 ? null : `${record.claimed_work_orders} claimed work orders`
    },
  })
}

export async function rotateAgent(cli: Cli, [name = '']: readonly string[], options: ChangeOptions & { out?: string }): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  const { id } = await requireAgent(client, name)
  await confirm(options, name, [`replaces the PAK of agent ${name}; the old one is invalid at once`])
  const done = await change(options, `replace the PAK of agent ${name}`, () => client.rotateAgentPak({ params: { id }, body: {} }))
  if (done !== null) await giveSecret(options, { what: `the PAK of agent ${name} was replaced`, text: done.pak ?? '', value: done })
}

/** With --prune the agent first removes what it deployed; without it, its objects stay in the cluster. */
export async function removeAgent(cli: Cli, [name = '']: readonly string[], options: ChangeOptions & { prune?: boolean }): Promise<void> {
  parseDuration(options.timeout ?? '5m', '--timeout')
  const client = await cli.client()
  const { id } = await requireAgent(client, name)
  const stacks = await client.getAssociatedStacks({ params: { id } })
  const fate = options.prune === true ? 'are removed from the cluster first' : 'stay in the cluster'
  await confirm(options, name, [`deletes agent ${name} and its PAK; its ${stacks.length} stacks ${fate}`])
  const done = await change(options, `delete agent ${name}; its ${stacks.length} stacks ${fate}`, async () => {
    if (options.prune === true) await emptyAgent(cli, client, { id, name, stacks, timeout: options.timeout ?? '5m' })
    await client.deleteAgent({ params: { id } })
    return { id, name, deleted: true }
  })
  if (done === null) return
  const rest = options.prune === true ? 'were removed' : 'stay in the cluster'
  show(options.output, { value: done, names: [name], lines: () => [`agent ${name} deleted; its ${stacks.length} stacks ${rest}`] })
}

/** Stacks that are read at once; later ones are read when these are removed. */
const statusesMax = 8

/** Ends all registrations of the agent, which takes every stack away from it, and waits until it has removed them. */
async function emptyAgent(
  cli: Cli,
  client: Client,
  given: { readonly id: string; readonly name: string; readonly stacks: readonly Stack[]; readonly timeout: string },
): Promise<void> {
  const params = { id: given.id }
  for (const { generator_id } of await client.listAgentRegistrations({ params }))
    await client.deregisterAgent({ params: { id: generator_id }, body: { agent_id: given.id } })
  let open = given.stacks
  await waitUntil(cli, client, {
    what: `the removal of the stacks of ${given.name}`,
    // The broker lists no stacks of the agent any more, so a second run has none to wait for.
    next: `brokkr describe stack NAME until ${given.name} has removed it; only then the same command again, which does not wait`,
    scope: [`agent:${given.id}`],
    timeout: given.timeout,
    check: async () => {
      while (open.length > 0) {
        const batch = open.slice(0, statusesMax)
        const statuses = await Promise.all(
          batch.map(({ id }) => client.getStackStatus({ params: { id }, query: { include_deleted: true } })),
        )
        const left = batch.filter((_, at) => statuses[at]!.agents.some((one) => one.agent_id === given.id && one.phase !== 'removed'))
        open = [...left, ...open.slice(statusesMax)]
        if (left.length > 0) return `at most ${open.length} stacks: ${left.map((one) => one.name).join(', ')}`
      }
      return null
    },
  })
}

interface ApproveOptions extends ChangeOptions {
  readonly stack?: string
  readonly removals?: string
}

/** Lets an agent exceed its prune guard: for a number of stacks in its next snapshot, or for the present content of one stack. */
export async function approvePrune(cli: Cli, [name = '']: readonly string[], options: ApproveOptions): Promise<void> {
  const client = await cli.client()
  const { id } = await requireAgent(client, name)
  if ((options.stack === undefined) === (options.removals === undefined) || !/^\d{0,7}$/.test(options.removals ?? ''))
    throw new CliError('name what may be removed', { next: '--stack NAME, or --removals COUNT', exitCode: exitCodes.usage })
  const stack = options.stack === undefined ? null : await requireStack(client, options.stack)
  const sequence = stack === null ? null : (await client.getStackStatus({ params: { id: stack.id } })).desired_sequence_id
  const body = stack === null ? { removals: Number(options.removals) } : { stack_id: stack.id, sequence_id: sequence }
  const what = stack === null ? `${options.removals} stacks` : `objects of ${stack.name} ${sequence}`
  await confirm(options, name, [`lets agent ${name} delete ${what} beyond its prune guard`])
  const done = await change(options, `let agent ${name} delete ${what} beyond its prune guard`, () =>
    client.approvePrune({ params: { id }, body }),
  )
  if (done !== null) show(options.output, { value: done, names: [name], lines: () => [`agent ${name} may delete ${what}`] })
}
