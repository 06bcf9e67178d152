// brokkr explain target STACK AGENT: why a stack reaches an agent or does not, since when, and at which sequence number.
import type { Client } from '@brokkr/client'
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import type { ListedStack } from '@brokkr/contract/stacks/stack.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { requireAgent, requireStack } from '../../names.ts'
import { show } from '../../show.ts'

export async function explainTarget(
  cli: Cli,
  [stackName = '', agentName = '']: readonly string[],
  options: { output: Form },
): Promise<void> {
  const client = await cli.client()
  const [stack, agent] = await Promise.all([requireStack(client, stackName), requireAgent(client, agentName)])
  const facts = await readFacts(client, stack, agent)
  show(options.output, { value: facts, names: [`${stack.name}@${agent.name}`], lines: () => targetLines(facts) })
}

export interface TargetFacts {
  readonly stack: string
  readonly agent: string
  readonly generator: string
  readonly reaches: boolean
  readonly is_registered: boolean
  readonly shared_labels: readonly { readonly label: string; readonly since: string | null; readonly by: string | null }[]
  readonly shared_annotations: readonly string[]
  readonly is_explicit: boolean
  readonly stack_labels: readonly string[]
  readonly agent_labels: readonly string[]
  readonly desired_sequence_id: number | null
  readonly sequence_id: number | null
  readonly phase: string | null
  readonly agent_status: string
  readonly policy: unknown
}

async function readFacts(client: Client, stack: ListedStack, agent: Agent): Promise<TargetFacts> {
  const [stackLabels, agentLabels, stackAnnotations, agentAnnotations, registrations, status, generator] = await Promise.all([
    client.stacksListLabels({ params: { id: stack.id } }),
    client.agentsListLabels({ params: { id: agent.id } }),
    client.stacksListAnnotations({ params: { id: stack.id } }),
    client.agentsListAnnotations({ params: { id: agent.id } }),
    client.listAgentRegistrations({ params: { id: agent.id } }),
    client.getStackStatus({ params: { id: stack.id } }),
    client.getGenerator({ params: { id: stack.generator_id } }),
  ])
  const own = status.agents.find(({ agent_id }) => agent_id === agent.id)
  const shared = stackLabels.map(({ label }) => label).filter((label) => agentLabels.some((one) => one.label === label))
  return {
    stack: stack.name,
    agent: agent.name,
    generator: generator.name,
    reaches: own !== undefined,
    is_registered: registrations.some(({ generator_id }) => generator_id === stack.generator_id),
    shared_labels: await Promise.all(shared.map((label) => findOrigin(client, { stack, agent, label }))),
    shared_annotations: stackAnnotations
      .filter(({ key, value }) => agentAnnotations.some((one) => one.key === key && one.value === value))
      .map(({ key, value }) => `${key}=${value}`),
    is_explicit: own?.reasons.includes('explicit') ?? false,
    stack_labels: stackLabels.map(({ label }) => label),
    agent_labels: agentLabels.map(({ label }) => label),
    desired_sequence_id: own?.desired_sequence_id ?? status.desired_sequence_id,
    sequence_id: own?.sequence_id ?? null,
    phase: own?.phase ?? null,
    agent_status: agent.status,
    policy: agent.facts?.['policy'] ?? null,
  }
}

/** The later of both labels made the target. The audit log keeps 90 days; older ones have no known origin. */
async function findOrigin(
  client: Client,
  at: { stack: ListedStack; agent: Agent; label: string },
): Promise<TargetFacts['shared_labels'][number]> {
  const read = async (resource_id: string, action: string) => {
    const answer = await client.listAuditLogs({ query: { resource_id, action, limit: 100 } }).catch(() => null)
    return answer?.logs.find(({ details }) => details?.['label'] === at.label) ?? null
  }
  const entries = await Promise.all([read(at.stack.id, 'stack.label_added'), read(at.agent.id, 'agent.label_added')])
  const latest = entries.flatMap((entry) => (entry === null ? [] : [entry])).toSorted((a, b) => (a.timestamp < b.timestamp ? 1 : -1))[0]
  return { label: at.label, since: latest?.timestamp ?? null, by: latest === undefined ? null : (latest.actor_name ?? latest.actor_type) }
}

export function targetLines(facts: TargetFacts): string[] {
  const { stack, agent } = facts
  if (facts.reaches)
    return [
      `${stack} reaches ${agent}: ${[...reasonsOf(facts), `${agent} is registered with generator ${facts.generator}`].join(' · ')}`,
      sequenceLine(facts),
      ...(facts.policy === null ? [] : [`local policy of ${agent}: ${JSON.stringify(facts.policy)}`]),
      ...(facts.agent_status === 'ACTIVE'
        ? []
        : [`${agent} is ${facts.agent_status}: it applies nothing until brokkr agents resume ${agent}`]),
    ]
  return [`${stack} does not reach ${agent}`, ...causeLines(facts)]
}

const reasonsOf = (facts: TargetFacts): string[] => [
  ...facts.shared_labels.map(
    ({ label, since, by }) =>
      `label ${label} on both (${since === null ? 'since unknown' : `since ${since.slice(0, 16)}Z`}${by === null ? '' : `, by ${by}`})`,
  ),
  ...facts.shared_annotations.map((text) => `annotation ${text} on both`),
  ...(facts.is_explicit ? ['explicit target'] : []),
]

const sequenceLine = ({ sequence_id, desired_sequence_id, phase, agent }: TargetFacts): string =>
  desired_sequence_id === null
    ? 'the stack has no content yet'
    : sequence_id === desired_sequence_id && phase === 'applied'
      ? `at sequence ${sequence_id}, as desired`
      : `at sequence ${sequence_id ?? '-'}, not ${desired_sequence_id}: ${phase ?? `${agent} has not reported`}`

function causeLines(facts: TargetFacts): string[] {
  const { stack, agent, generator } = facts
  const hasReason = facts.shared_labels.length + facts.shared_annotations.length > 0 || facts.is_explicit
  return [
    ...(facts.is_registered
      ? []
      : [`  why   ${agent} is not registered with generator ${generator}`, `  do    brokkr generators register ${generator} ${agent}`]),
    ...(hasReason
      ? []
      : [
          `  why   they share no label and there is no explicit target; stack: ${facts.stack_labels.join(', ') || '-'}; agent: ${facts.agent_labels.join(', ') || '-'}`,
          `  do    brokkr stacks target ${stack} --agent ${agent}`,
        ]),
  ]
}
