// brokkr hold | release | stacks undelete: what agents get, beside submitting.
import type { Client } from '@brokkr/client'
import type { Hold } from '@brokkr/contract/stacks/hold.ts'
import type { ListedStack } from '@brokkr/contract/stacks/stack.ts'
import { change, confirm } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions } from '../../command.ts'
import { requireStack } from '../../names.ts'
import { age, CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { waitForStack } from '../../wait.ts'

export async function hold(
  cli: Cli,
  [name = '']: readonly string[],
  options: ChangeOptions & { reason: string; sequence?: string },
): Promise<void> {
  if (options.sequence !== undefined && !/^[1-9]\d{0,9}$/.test(options.sequence))
    throw new CliError(`--sequence ${options.sequence} is not a sequence number`, {
      next: `brokkr stacks history ${name}`,
      exitCode: exitCodes.usage,
    })
  const client = await cli.client()
  const { id } = await requireStack(client, name)
  const body = { reason: options.reason, ...(options.sequence === undefined ? {} : { sequence_id: Number(options.sequence) }) }
  const done = await change(options, `hold stack ${name}`, () => client.holdStack({ params: { id }, body }))
  if (done !== null) show(options.output, { value: done, names: [name], lines: () => [holdLine(name, done)] })
}

/** Shows what waits behind the hold before it is released. */
export async function release(cli: Cli, [name = '']: readonly string[], options: ChangeOptions & { reason?: string }): Promise<void> {
  const client = await cli.client()
  const { id } = await requireStack(client, name)
  const held = await client.getHold({ params: { id } })
  const effect = held.waiting.length === 0 ? 'nothing waits behind it' : `agents get ${held.waiting[0]} instead of ${held.sequence_id}`
  if (held.waiting.length > 0) await confirm(options, name, [holdLine(name, held), effect])
  const query = options.reason === undefined ? {} : { reason: options.reason }
  const done = await change(options, `release stack ${name}: ${effect}`, async () => {
    await client.releaseStack({ params: { id }, query })
    return held
  })
  if (done === null) return
  show(options.output, { value: done, names: [name], lines: () => [`stack ${name} released: ${effect}`] })
  if (options.wait !== true) return
  const sequence = held.waiting[0] ?? held.sequence_id
  await waitForStack(cli, client, { id, name, sequence, timeout: options.timeout ?? '5m' })
}

export const holdLine = (name: string, { sequence_id, reason, by, created_at, waiting }: Hold): string =>
  `stack ${name} is held at ${sequence_id} by ${by.kind} ${by.name ?? by.id ?? ''}, ${age(created_at)} ago: "${reason}"; waiting: ${waiting.join(', ') || 'none'}`

export async function undelete(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const deleted = await findDeleted(client, name)
  const done = await change(options, `undelete stack ${name}, deleted ${age(deleted.deleted_at)} ago`, () =>
    client.undeleteStack({ params: { id: deleted.id } }),
  )
  if (done === null) return
  show(options.output, { value: done, names: [name], lines: () => [`stack ${name} is back, with its content and targets`] })
  if (options.wait !== true) return
  const { desired_sequence_id, agents } = await client.getStackStatus({ params: { id: deleted.id } })
  if (desired_sequence_id !== null && agents.length > 0)
    await waitForStack(cli, client, { id: deleted.id, name, sequence: desired_sequence_id, timeout: options.timeout ?? '5m' })
}

/** The one that was deleted last. */
async function findDeleted(client: Client, name: string): Promise<ListedStack> {
  const found: ListedStack[] = []
  for await (const stack of client.items('listStacks', { query: { name, include_deleted: true } }))
    if (stack.deleted_at !== null) found.push(stack)
  const [newest] = found.toSorted((a, b) => (a.deleted_at! < b.deleted_at! ? 1 : -1))
  if (newest !== undefined) return newest
  throw new CliError(`no deleted stack is named ${name}`, {
    next: 'brokkr audit list --action stack.deleted',
    exitCode: exitCodes.notFound,
  })
}
