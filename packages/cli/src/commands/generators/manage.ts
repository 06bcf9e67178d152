// brokkr generators create | rotate | register | deregister | remove.

import { change, confirm, giveSecret, requireNewFile } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions } from '../../command.ts'
import { requireAgent, requireGenerator } from '../../names.ts'
import { show } from '../../show.ts'

type SecretOptions = ChangeOptions & { readonly out?: string; readonly description?: string }

export async function createGenerator(cli: Cli, [name = '']: readonly string[], options: SecretOptions): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  const body = { name, ...(options.description === undefined ? {} : { description: options.description }) }
  const done = await change(options, `create generator ${name}`, () => client.createGenerator({ body }))
  if (done !== null) await giveSecret(options, { what: `generator ${name} created`, text: done.pak, value: done })
}

export async function rotateGenerator(cli: Cli, [name = '']: readonly string[], options: SecretOptions): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  const { id } = await requireGenerator(client, name)
  await confirm(options, name, [`replaces the PAK of generator ${name}; the old one is invalid at once`])
  const done = await change(options, `replace the PAK of generator ${name}`, () => client.rotateGeneratorPak({ params: { id } }))
  if (done !== null) await giveSecret(options, { what: `the PAK of generator ${name} was replaced`, text: done.pak, value: done })
}

export const setRegistration =
  (isRegistered: boolean) =>
  async (cli: Cli, [name = '', agentName = '']: readonly string[], options: ChangeOptions): Promise<void> => {
    const client = await cli.client()
    const [generator, agent] = await Promise.all([requireGenerator(client, name), requireAgent(client, agentName)])
    const call = { params: { id: generator.id }, body: { agent_id: agent.id } }
    if (!isRegistered) await confirm(options, name, [`removes the stacks of generator ${name} from agent ${agent.name}`])
    const done = await change(
      options,
      `${isRegistered ? 'register' : 'deregister'} agent ${agent.name} with generator ${name}`,
      async () => {
        if (!isRegistered) return client.deregisterAgent(call)
        return client
          .registerAgent(call)
          .catch((error: { code?: string }) => (error.code === 'already_registered' ? undefined : Promise.reject(error as Error)))
      },
    )
    if (done === null) return
    const line = `agent ${agent.name} is ${isRegistered ? 'registered' : 'no longer registered'} with generator ${name}`
    show(options.output, { value: done ?? { generator_id: generator.id, agent_id: agent.id }, names: [name], lines: () => [line] })
  }

export async function removeGenerator(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const { id } = await requireGenerator(client, name)
  const names: string[] = []
  for await (const stack of client.items('listStacks', { query: { pak_id: id } })) names.push(stack.name)
  await confirm(options, name, [
    `deletes generator ${name} and ${names.length} stacks: ${names.slice(0, 20).join(', ') || '-'}`,
    'agents remove what these stacks deployed',
  ])
  const done = await change(options, `delete generator ${name} and ${names.length} stacks`, async () => {
    await client.deleteGenerator({ params: { id } })
    return { id, name, deleted: true }
  })
  if (done !== null)
    show(options.output, { value: done, names: [name], lines: () => [`generator ${name} and ${names.length} stacks deleted`] })
}
