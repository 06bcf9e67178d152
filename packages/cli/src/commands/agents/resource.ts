// Agents in lists and on their own screen.
import type { Client } from '@brokkr/client'
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { requireAgent } from '../../names.ts'
import { age } from '../../output.ts'
import { formatTable, terminalWidth } from '../../table.ts'
import { type Description, pairLines, type Resource, toQuery } from '../get/resource.ts'

export const agents: Resource<Agent> = {
  head: ['NAME', 'CLUSTER', 'STATUS', 'CONNECTION', 'SEEN', 'VERSION'],
  row: (agent) => [
    agent.name,
    agent.cluster_name,
    agent.status,
    agent.connection_state,
    age(agent.last_seen_at),
    agent.agent_version ?? '-',
  ],
  wideHead: ['KUBERNETES', 'LATENCY', 'AGE', 'ID'],
  wideRow: (agent) => [
    agent.k8s_reachable === null ? '-' : agent.k8s_reachable ? 'reachable' : 'unreachable',
    agent.k8s_api_latency_ms === null ? '-' : `${agent.k8s_api_latency_ms} ms`,
    age(agent.created_at),
    agent.id,
  ],
  nameOf: ({ name }) => name,
  fields: ['name', 'status'],
  hasLabels: true,
  pages: (client, filter) => client.pages('listAgents', { query: toQuery(filter) }),
  kinds: ['agent'],
  describe: describeAgent,
}

const eventsMax = 10

async function describeAgent(client: Client, name: string): Promise<Description> {
  const agent = await requireAgent(client, name)
  const params = { id: agent.id }
  const [fleet, labels, annotations, targets, registrations] = await Promise.all([
    client.getAgentFleetStatus({ params }),
    client.agentsListLabels({ params }),
    client.agentsListAnnotations({ params }),
    client.getAssociatedStacks({ params }),
    client.listAgentRegistrations({ params }),
  ])
  const generators = await Promise.all(
    registrations.map(({ generator_id: id }) => client.getGenerator({ params: { id } }).catch(() => null)),
  )
  const { record } = fleet
  return {
    value: { agent, fleet: record, labels, annotations, stacks: targets, registrations },
    names: [agent.name],
    scope: [`agent:${agent.id}`],
    lines: () => [
      ...pairLines([
        ['agent', `${agent.name}   ${agent.status}   ${agent.connection_state}, seen ${age(agent.last_seen_at)} ago`],
        ['cluster', agent.cluster_name],
        ['version', agent.agent_version],
        ['kubernetes', kubernetesText(agent)],
        ['labels', labels.map(({ label }) => label).join(', ')],
        ['annotations', annotations.map(({ key, value }) => `${key}=${value}`).join(', ')],
        ['generators', generators.flatMap((one) => (one === null ? [] : [one.name])).join(', ')],
        ['lag', `${record.pending_object_count} objects`],
        ['orders', `${record.pending_work_orders} pending, ${record.claimed_work_orders} claimed`],
        ['health', `${record.health_failing} failing, ${record.health_degraded} degraded`],
        [
          'stacks',
          `${targets.length}: ${targets
            .slice(0, 10)
            .map((stack) => stack.name)
            .join(', ')}`,
        ],
      ]),
      '',
      formatTable(
        {
          head: ['EVENT', 'STATUS', 'WHEN', 'MESSAGE'],
          rows: fleet.recent_events
            .slice(0, eventsMax)
            .map((event) => [event.event_type, event.status, `${age(event.created_at)} ago`, event.message ?? '-']),
        },
        terminalWidth(),
      ),
    ],
  }
}

function kubernetesText({ k8s_reachable, k8s_api_latency_ms, k8s_reported_at }: Agent): string | null {
  if (k8s_reachable === null) return null
  return `${k8s_reachable ? 'reachable' : 'unreachable'}, ${k8s_api_latency_ms ?? '?'} ms, reported ${age(k8s_reported_at)} ago`
}
