// brokkr describe stack NAME: desired, each agent's own word about it, the last revisions.
import { openClient } from '../context.ts'
import type { Globals } from '../main.ts'
import { age, CliError, print, table } from '../output.ts'
import { stateOf } from './get.ts'

export async function describe(globals: Globals, input: { what: string; name: string; output: string }): Promise<void> {
  if (input.what !== 'stack') throw new CliError(`cannot describe ${input.what}`, { next: 'brokkr describe stack NAME', exitCode: 2 })
  const client = await openClient(globals)
  const [stack] = await client.listStacks({ query: { name: input.name } })
  if (stack === undefined) throw new CliError(`there is no stack named ${input.name}`, { next: 'brokkr get stacks' })
  const params = { id: stack.id }
  const [status, labels, objects] = await Promise.all([
    client.getStackStatus({ params }),
    client.stacksListLabels({ params }),
    client.listDeploymentObjects({ params, query: { content: false } }),
  ])
  if (input.output === 'json') {
    print(JSON.stringify({ stack, status, labels, objects }, null, 2))
    return
  }
  print(`stack    ${stack.name}   ${stateOf(status)}   desired ${status.desired_sequence_id ?? '-'}   drift ${stack.drift}`)
  print(`labels   ${labels.map(({ label }) => label).join(', ') || '-'}`)
  print()
  const rows = status.agents.map((agent) => [
    agent.agent_name,
    agent.phase ?? 'waiting',
    String(agent.sequence_id ?? '-'),
    agent.stale ? `stale, heard ${age(agent.received_at)} ago` : `${age(agent.observed_at)} ago`,
    agent.reasons.join(', '),
    [agent.code, agent.message].filter(Boolean).join(': '),
  ])
  print(table(['AGENT', 'PHASE', 'SEQUENCE', 'OBSERVED', 'BY', 'MESSAGE'], rows))
  print()
  print(
    table(
      ['SEQUENCE', 'SUBMITTED', 'KIND', 'CHECKSUM'],
      objects
        .slice(0, 10)
        .map((one) => [
          String(one.sequence_id),
          `${age(one.submitted_at)} ago`,
          one.is_deletion_marker ? 'removal' : 'revision',
          one.yaml_checksum.slice(0, 12),
        ]),
    ),
  )
}
