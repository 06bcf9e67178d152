// brokkr get stacks|agents|generators.
import type { Client } from '@brokkr/contract/client.ts'
import type { Stack, StackStatus } from '@brokkr/contract/stack.ts'
import { openClient } from '../context.ts'
import type { Globals } from '../main.ts'
import { age, CliError, print, table } from '../output.ts'

/** How many stacks are asked for their status at a time. */
const pageSize = 16

export async function get(globals: Globals, what: string, options: { output: string }): Promise<void> {
  const list = lists[what]
  if (list === undefined)
    throw new CliError(`there is nothing called ${what}`, { next: `brokkr get ${Object.keys(lists).join('|')}`, exitCode: 2 })
  const { items, rows } = await list(await openClient(globals))
  print(options.output === 'json' ? JSON.stringify(items, null, 2) : rows)
}

interface Listed {
  readonly items: unknown
  readonly rows: string
}

const lists: Record<string, (client: Client) => Promise<Listed>> = {
  agents: async (client) => {
    const items = await client.listAgents({})
    const rows = items.map((agent) => [
      agent.name,
      agent.cluster_name,
      agent.status,
      agent.connection_state,
      age(agent.last_seen_at),
      agent.agent_version ?? '',
    ])
    return { items, rows: table(['NAME', 'CLUSTER', 'STATUS', 'CONNECTION', 'SEEN', 'VERSION'], rows) }
  },
  generators: async (client) => {
    const items = await client.listGenerators({})
    return {
      items,
      rows: table(
        ['NAME', 'ACTIVE', 'DESCRIPTION'],
        items.map((one) => [one.name, one.is_active ? 'yes' : 'no', one.description ?? '']),
      ),
    }
  },
  stacks: async (client) => {
    const items = await stacksWithStatus(client)
    const rows = items.map(({ stack, status }) => [
      stack.name,
      String(status.desired_sequence_id ?? '-'),
      observedOf(status),
      stateOf(status),
      String(status.agents.length),
      age(stack.created_at),
    ])
    return { items, rows: table(['NAME', 'DESIRED', 'OBSERVED', 'STATE', 'AGENTS', 'AGE'], rows) }
  },
}

export async function stacksWithStatus(client: Client): Promise<{ stack: Stack; status: StackStatus }[]> {
  const stacks = await client.listStacks({})
  const found: { stack: Stack; status: StackStatus }[] = []
  for (let at = 0; at < stacks.length; at += pageSize) {
    const page = stacks.slice(at, at + pageSize)
    found.push(
      ...(await Promise.all(page.map(async (stack) => ({ stack, status: await client.getStackStatus({ params: { id: stack.id } }) })))),
    )
  }
  return found
}

/** The lowest sequence any agent has; what is old is said to be old. */
export function observedOf({ agents }: StackStatus): string {
  if (agents.length === 0) return '-'
  return String(Math.min(...agents.map((agent) => agent.sequence_id ?? 0)))
}

/** The worst first: failed, held, pending, stale, applied. */
export function stateOf(status: StackStatus): string {
  const { agents, desired_sequence_id } = status
  if (desired_sequence_id === null) return 'empty'
  if (agents.length === 0) return 'no agent'
  const worst = (['failed', 'held', 'pending'] as const).find((phase) => agents.some((agent) => agent.phase === phase))
  if (worst !== undefined) return worst
  if (agents.some((agent) => agent.stale)) return 'stale'
  return agents.every((agent) => agent.phase === 'applied' && agent.sequence_id === desired_sequence_id) ? 'applied' : 'waiting'
}
