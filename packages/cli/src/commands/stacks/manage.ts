// brokkr stacks create | label | target | delete | history: changes of a stack beside its content.
import type { Client } from '@brokkr/client'
import type { Drift } from '@brokkr/contract/stacks/stack.ts'
import { change, confirm } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions, Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { requireAgent, requireGenerator, requireStack } from '../../names.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { show } from '../../show.ts'
import { waitForStack, waitUntil } from '../../wait.ts'
import { historyTable, readActors } from './resource.ts'

interface CreateOptions extends ChangeOptions {
  readonly generator: string
  readonly description?: string
  readonly drift?: Drift
  readonly label: readonly string[]
}

export async function createStack(cli: Cli, [name = '']: readonly string[], options: CreateOptions): Promise<void> {
  const client = await cli.client()
  const owner = await client.verifyPak({})
  const generator_id = owner.generator ?? (await requireGenerator(client, options.generator)).id
  const { description, drift } = options
  const body = {
    name,
    generator_id,
    labels: [...options.label],
    ...(description === undefined ? {} : { description }),
    ...(drift === undefined ? {} : { drift }),
  }
  const stack = await change(options, `create stack ${name}`, () => client.createStack({ body }))
  if (stack !== null) show(options.output, { value: stack, names: [name], lines: () => [`stack ${name} created`] })
}

export async function labelStack(
  cli: Cli,
  [name = '', ...labels]: readonly string[],
  options: ChangeOptions & { remove?: boolean },
): Promise<void> {
  const client = await cli.client()
  const { id } = await requireStack(client, name)
  const verb = options.remove === true ? 'remove' : 'add'
  const done = await change(options, `${verb} labels ${labels.join(', ')} of stack ${name}`, async () => {
    const known = new Set((await client.stacksListLabels({ params: { id } })).map(({ label }) => label))
    for (const label of labels)
      if (options.remove === true) await client.stacksRemoveLabel({ params: { id, label } })
      // A label that exists already is not an error: the command can be repeated.
      else if (!known.has(label)) await client.stacksAddLabel({ params: { id }, body: label })
    return client.stacksListLabels({ params: { id } })
  })
  if (done === null) return
  show(options.output, {
    value: done,
    names: [name],
    lines: () => [`stack ${name}: ${done.map(({ label }) => label).join(', ') || 'no label'}`],
  })
  await waitForHead(cli, client, { id, name }, options)
}

export async function targetStack(
  cli: Cli,
  [name = '']: readonly string[],
  options: ChangeOptions & { agent: readonly string[]; remove?: boolean },
): Promise<void> {
  if (options.agent.length === 0) throw new CliError('no agent is named', { next: '--agent NAME', exitCode: exitCodes.usage })
  const client = await cli.client()
  const { id } = await requireStack(client, name)
  const agents = await Promise.all(options.agent.map((agent) => requireAgent(client, agent)))
  const names = agents.map((agent) => agent.name).join(', ')
  const done = await change(options, `${options.remove === true ? 'remove the target' : 'target stack'} ${name} on ${names}`, async () => {
    for (const agent of agents) {
      if (options.remove === true) await client.removeTarget({ params: { id: agent.id, stack_id: id } })
      else
        await client
          .addTarget({ params: { id: agent.id }, body: { agent_id: agent.id, stack_id: id } })
          .catch((error: { code?: string }) => (error.code === 'unique_violation' ? undefined : Promise.reject(error as Error)))
    }
    return client.getStackStatus({ params: { id } })
  })
  if (done === null) return
  const reached = done.agents.map(({ agent_name }) => agent_name).join(', ')
  show(options.output, { value: done, names: [name], lines: () => [`stack ${name} reaches ${reached || 'no agent'}`] })
  await waitForHead(cli, client, { id, name }, options)
}

export async function deleteStack(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  if (options.wait === true) parseDuration(options.timeout ?? '', '--timeout')
  const client = await cli.client()
  const { id } = await requireStack(client, name)
  const { agents } = await client.getStackStatus({ params: { id } })
  await confirm(options, name, [
    `deletes stack ${name}`,
    `${agents.length} agents remove what it deployed: ${agents.map(({ agent_name }) => agent_name).join(', ') || '-'}`,
  ])
  const done = await change(options, `delete stack ${name}; ${agents.length} agents remove what it deployed`, async () => {
    await client.deleteStack({ params: { id } })
    return { id, name, deleted: true }
  })
  if (done === null) return
  show(options.output, {
    value: done,
    names: [name],
    lines: () => [`stack ${name} deleted; ${agents.length} agents remove what it deployed`],
  })
  if (options.wait !== true) return
  await waitUntil(cli, client, {
    what: `the removal of ${name}`,
    next: 'brokkr get agents',
    scope: [`stack:${id}`],
    timeout: options.timeout ?? '5m',
    check: async () => {
      const open = (await client.getStackStatus({ params: { id }, query: { include_deleted: true } })).agents.filter(
        ({ phase }) => phase !== 'removed',
      )
      return open.length === 0
        ? null
        : `${open.length} agents: ${open
            .slice(0, 5)
            .map(({ agent_name }) => agent_name)
            .join(', ')}`
    },
  })
}

const historyMax = 50

export async function stackHistory(cli: Cli, [name = '']: readonly string[], options: { output: Form }): Promise<void> {
  const client = await cli.client()
  const { id } = await requireStack(client, name)
  const objects = await client.listDeploymentObjects({ params: { id }, query: { content: false, limit: historyMax } })
  const actors = await readActors(client, objects)
  show(options.output, {
    value: objects,
    names: objects.map(({ sequence_id }) => String(sequence_id)),
    table: () => historyTable(objects, actors),
  })
}

/** Prints the manifest as it was submitted. */
export async function showManifest(cli: Cli, [name = '']: readonly string[], options: { sequence?: string }): Promise<void> {
  const client = await cli.client()
  const stack = await requireStack(client, name)
  const { requireObject } = await import('./diff.ts')
  const [head] = await client.listDeploymentObjects({ params: { id: stack.id }, query: { content: false, limit: 1 } })
  const id = options.sequence === undefined ? head?.id : await requireObject(client, stack, options.sequence)
  if (id === undefined)
    throw new CliError(`${name} has no content`, { next: `brokkr apply -f FILE --stack ${name}`, exitCode: exitCodes.notFound })
  print((await client.getDeploymentObject({ params: { id } })).yaml_content.trimEnd())
}

async function waitForHead(
  cli: Cli,
  client: Client,
  { id, name }: { id: Parameters<Client['getStack']>[0]['params']['id']; name: string },
  options: ChangeOptions,
): Promise<void> {
  if (options.wait !== true) return
  const { desired_sequence_id, agents } = await client.getStackStatus({ params: { id } })
  if (desired_sequence_id !== null && agents.length > 0)
    await waitForStack(cli, client, { id, name, sequence: desired_sequence_id, timeout: options.timeout ?? '5m' })
}
