// The last log lines of the pods of a stack on one agent, by a diagnostic request that the agent answers.
import type { Client } from '@brokkr/client'
import type { DiagnosticResult } from '@brokkr/contract/diagnostics/diagnostic.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Cli } from '../../cli.ts'
import { CliError, exitCodes } from '../../output.ts'
import { waitUntil } from '../../wait.ts'

export interface LogTail {
  readonly key: string
  readonly pod: string
  readonly container: string
  readonly isPrevious: boolean
  readonly text: string
}
interface Wanted {
  readonly stack: { readonly id: StackId; readonly name: string }
  readonly agentId: AgentId
  readonly agentName: string
  readonly timeout: string
}

export async function readTails(cli: Cli, client: Client, wanted: Wanted): Promise<LogTail[]> {
  const result = await requestDiagnostic(cli, client, wanted)
  const tails = JSON.parse(result.log_tails ?? '{}') as Record<string, string>
  return Object.entries(tails).map(([key, text]) => {
    const [pod = '', rest = ''] = key.split('/')
    const [container = '', previous] = rest.split('#')
    return { key, pod, container, isPrevious: previous !== undefined, text }
  })
}

async function requestDiagnostic(cli: Cli, client: Client, wanted: Wanted): Promise<DiagnosticResult> {
  const { stack, agentId, agentName } = wanted
  const { agents } = await client.getStackStatus({ params: { id: stack.id } })
  const objectId = agents.find((agent) => agent.agent_id === agentId)?.deployment_object_id
  if (objectId === undefined || objectId === null)
    throw new CliError(`${agentName} has not reported ${stack.name}`, {
      next: `brokkr explain target ${stack.name} ${agentName}`,
      exitCode: exitCodes.notFound,
    })
  const request = await client.createDiagnosticRequest({
    params: { id: objectId },
    body: { agent_id: agentId, requested_by: 'brokkr-cli' },
  })
  let result: DiagnosticResult | null = null
  await waitUntil(cli, client, {
    what: 'the diagnostic request',
    next: `brokkr doctor --agent ${agentName}`,
    scope: [`agent:${agentId}`],
    timeout: wanted.timeout,
    check: async () => {
      const answer = await client.getDiagnostic({ params: { id: request.id } })
      result = answer.result
      if (answer.request.status === 'failed' || answer.request.status === 'expired')
        throw new CliError(`${agentName} did not answer the diagnostic request`, {
          where: answer.request.status,
          next: `brokkr doctor --agent ${agentName}`,
        })
      return result === null ? `the answer of ${agentName}` : null
    },
  })
  return result!
}
