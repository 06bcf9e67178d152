// Stacks in lists and on their own screen.

import type { Client } from '@brokkr/client'
import type { ListedStack, StackStatus } from '@brokkr/contract/stacks/stack.ts'
import { parseAddress, requireStack } from '../../names.ts'
import { age } from '../../output.ts'
import { formatTable, type Table, terminalWidth } from '../../table.ts'
import { type Description, pairLines, type Resource, toQuery } from '../get/resource.ts'
import { holdLine } from './hold.ts'

export const stacks: Resource<ListedStack> = {
  head: ['NAME', 'DESIRED', 'CURRENT', 'HEALTH', 'DRIFTED', 'HELD', 'SEEN', 'AGE'],
  row: ({ name, created_at, status }) => [
    name,
    String(status?.desired_sequence_id ?? '-'),
    status === undefined ? '-' : `${status.agents_current}/${status.agents_total}`,
    status === undefined || status.desired_sequence_id === null ? '-' : status.agents_total === 0 ? 'no agent' : status.health,
    String(status?.drifted ?? '-'),
    status?.held === true ? 'yes' : 'no',
    status === undefined || status.oldest_seen_at === null ? '-' : age(status.oldest_seen_at),
    age(created_at),
  ],
  wideHead: ['DRIFT', 'DESCRIPTION', 'ID'],
  wideRow: ({ drift, description, id }) => [drift, description ?? '-', id],
  nameOf: ({ name }) => name,
  fields: ['name', 'health', 'drifted', 'held'],
  hasLabels: true,
  pages: (client, filter) => client.pages('listStacks', { query: { include: 'status', ...toQuery(filter) } }),
  kinds: ['stack', 'deployment_object', 'status', 'target', 'health'],
  describe: describeStack,
}

const changesMax = 10

async function describeStack(client: Client, text: string): Promise<Description> {
  const { stack: name, agent } = parseAddress(text)
  const stack = await requireStack(client, name)
  const params = { id: stack.id }
  const [status, labels, objects] = await Promise.all([
    client.getStackStatus({ params }),
    client.stacksListLabels({ params }),
    client.listDeploymentObjects({ params, query: { content: false, limit: changesMax } }),
  ])
  const actors = await readActors(client, objects)
  const hold = status.held_sequence_id === null ? null : await client.getHold({ params }).catch(() => null)
  const shown = { ...status, agents: status.agents.filter((one) => agent === null || one.agent_name === agent) }
  return {
    value: { stack, status: shown, hold, labels, objects },
    names: [name],
    scope: [`stack:${stack.id}`],
    lines: () => [
      ...pairLines([
        ['stack', `${stack.name}   ${describeState(shown)}   desired ${status.desired_sequence_id ?? '-'}   drift ${stack.drift}`],
        ['labels', labels.map(({ label }) => label).join(', ')],
        ['about', stack.description],
      ]),
      ...(hold === null ? [] : [holdLine(name, hold)]),
      '',
      formatTable(
        { head: ['AGENT', 'PHASE', 'SEQUENCE', 'HEALTH', 'OBSERVED', 'BY', 'MESSAGE'], rows: shown.agents.map(agentRow) },
        terminalWidth(),
      ),
      '',
      formatTable(historyTable(objects, actors), terminalWidth()),
      ...nextStep(name, shown),
    ],
  }
}

type Listed = Awaited<ReturnType<Client['listDeploymentObjects']>>[number]

/** Who submitted, while the audit log has it; a PAK that may not read the audit log sees no names. */
export async function readActors(client: Client, objects: readonly Listed[]): Promise<string[]> {
  const read = async ({ id }: Listed) => {
    const answer = await client.listAuditLogs({ query: { resource_id: id, limit: 1 } }).catch(() => null)
    const [entry] = answer?.logs ?? []
    return entry === undefined ? 'unknown' : `${entry.actor_type} ${entry.actor_name ?? ''}`.trimEnd()
  }
  return Promise.all(objects.map(read))
}

const historyHead = ['SEQUENCE', 'SUBMITTED', 'BY', 'KIND', 'CHECKSUM']
export const historyTable = (objects: readonly Listed[], actors: readonly string[]): Table => ({
  head: historyHead,
  rows: objects.map((one, at) => [
    String(one.sequence_id),
    `${age(one.submitted_at)} ago`,
    actors[at] ?? 'unknown',
    one.is_deletion_marker ? 'deletion marker' : one.rollback_of === null ? 'manifest' : 'rollback',
    one.yaml_checksum.slice(0, 12),
  ]),
})

const agentRow = (agent: StackStatus['agents'][number]): string[] => [
  agent.agent_name,
  agent.phase ?? 'waiting',
  String(agent.sequence_id ?? '-'),
  agent.health,
  agent.stale ? `stale, reported ${age(agent.received_at)} ago` : `${age(agent.observed_at)} ago`,
  agent.reasons.join(', '),
  [agent.code, agent.message].filter(Boolean).join(': '),
]

function nextStep(name: string, status: StackStatus): string[] {
  const stuck = status.agents.find((agent) => agent.phase === 'failed' || agent.phase === 'held' || agent.health === 'failing')
  return stuck === undefined ? [] : ['', `next  brokkr explain stuck ${name}@${stuck.agent_name}`]
}

/** Order by severity: failed, held, pending, stale, applied. */
export function describeState(status: StackStatus): string {
  const { agents, desired_sequence_id } = status
  if (desired_sequence_id === null) return 'empty'
  if (agents.length === 0) return 'no agent'
  const worst = (['failed', 'held', 'pending'] as const).find((phase) => agents.some((agent) => agent.phase === phase))
  if (worst !== undefined) return worst
  if (agents.some((agent) => agent.stale)) return 'stale'
  return agents.every((agent) => agent.phase === 'applied' && agent.sequence_id === desired_sequence_id) ? 'applied' : 'waiting'
}
