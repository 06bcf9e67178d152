// brokkr explain stuck STACK@AGENT: what holds a stack back on one agent, since when, and what to do.
import type { Client } from '@brokkr/client'
import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { requireAddress, requireAgent, requireStack } from '../../names.ts'
import { age, CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { stripControls } from '../../table.ts'

export async function explainStuck(cli: Cli, [text = '']: readonly string[], options: { output: Form }): Promise<void> {
  const address = requireAddress(text)
  const client = await cli.client()
  const [stack, agent] = await Promise.all([requireStack(client, address.stack), requireAgent(client, address.agent)])
  const { agents } = await client.getStackStatus({ params: { id: stack.id } })
  const status = agents.find(({ agent_id }) => agent_id === agent.id)
  if (status === undefined)
    throw new CliError(`${stack.name} does not reach ${agent.name}`, {
      next: `brokkr explain target ${stack.name} ${agent.name}`,
      exitCode: exitCodes.notFound,
    })
  const facts = {
    stack: stack.name,
    status,
    event: await findFailure(client, stack.id, agent.id),
    unready: await readUnready(client, status),
  }
  show(options.output, { value: facts, names: [text], lines: () => stuckLines(facts) })
}

interface Unready {
  readonly kind: string
  readonly name: string
  readonly namespace: string
  readonly message?: string | null
}
export interface StuckFacts {
  readonly stack: string
  readonly status: AgentStackStatus
  /** The newest failure that the agent reported. */
  readonly event: AgentEvent | null
  readonly unready: readonly Unready[]
}

async function findFailure(
  client: Client,
  stack_id: AgentStackStatus['deployment_object_id'] extends never ? never : Parameters<Client['getStack']>[0]['params']['id'],
  agent_id: AgentStackStatus['agent_id'],
): Promise<AgentEvent | null> {
  const since = new Date(Date.now() - 24 * 3_600_000).toISOString()
  let last: AgentEvent | null = null
  for await (const event of client.items('listAgentEvents', { query: { stack_id, agent_id, since } }))
    if (event.error_code !== null || event.status === 'FAILURE') last = event
  return last
}

/** Objects of the applied content that are not ready, as the agent reported them. */
async function readUnready(client: Client, { deployment_object_id, agent_id }: AgentStackStatus): Promise<Unready[]> {
  if (deployment_object_id === null) return []
  const { health_records } = await client.getDeploymentHealth({ params: { id: deployment_object_id } })
  const summary = health_records.find((record) => record.agent_id === agent_id)?.summary
  if (summary === undefined || summary === null) return []
  const { resources } = JSON.parse(summary) as { resources?: (Unready & { ready: boolean })[] | null }
  return (resources ?? []).filter(({ ready }) => !ready)
}

export function stuckLines({ stack, status, event, unready }: StuckFacts): string[] {
  const address = `${stack}@${status.agent_name}`
  const isFine =
    status.phase === 'applied' && status.sequence_id === status.desired_sequence_id && status.health === 'healthy' && !status.stale
  if (isFine) return [`${address} is not stuck: ${status.sequence_id} is applied and healthy, observed ${age(status.observed_at)} ago`]
  const code = status.code === null ? '' : ` (${status.code})`
  const state = status.phase === 'applied' ? status.health : (status.phase ?? 'not reported')
  const failed = (event?.resources ?? []).filter(({ error }) => error !== undefined)
  return [
    `${address} ${status.desired_sequence_id ?? '-'} ${state}${code}, observed ${age(status.observed_at)} ago`,
    `  blocked by  ${status.message ?? event?.message ?? blockedByText(status, unready)}`,
    ...failed.slice(0, 5).map((one) => `              ${one.kind} ${[one.namespace, one.name].filter(Boolean).join('/')}: ${one.error}`),
    ...unready
      .slice(0, 5)
      .map((one) => `              ${one.kind} ${one.namespace}/${one.name} is not ready${one.message ? `: ${one.message}` : ''}`),
    `  since       ${event === null ? (status.received_at ?? 'unknown') : (event.occurred_at ?? event.created_at)}, attempt ${status.attempts}${retryText(status)}`,
    ...(status.sequence_id !== null && status.sequence_id !== status.desired_sequence_id
      ? [`  runs        ${status.sequence_id}, which is ${status.health}`]
      : []),
    `  do          ${adviceOf(stack, status)}`,
  ].map(stripControls)
}

const blockedByText = (status: AgentStackStatus, unready: readonly Unready[]): string =>
  status.stale
    ? `${status.agent_name} is silent: its last report came ${age(status.received_at)} ago`
    : unready.length > 0
      ? `${unready.length} objects are not ready`
      : 'the agent gave no reason'

const retryText = ({ retry_at }: AgentStackStatus): string => (retry_at === null ? '' : `, next at ${retry_at}`)

function adviceOf(stack: string, { code, phase, stale, agent_name }: AgentStackStatus): string {
  if (stale) return `brokkr doctor --agent ${agent_name}`
  if (phase === 'held' || code === 'prune_guard') return `brokkr agents approve-prune ${agent_name} --stack ${stack}`
  if (code === 'missing_kind') return 'install the missing definition on that cluster, or target the stack that brings it'
  if (phase === 'applied') return `brokkr logs ${stack}@${agent_name}        or: brokkr rollback ${stack} --last-good`
  return `brokkr events ${stack}@${agent_name}        or: brokkr rollback ${stack} --last-good`
}
