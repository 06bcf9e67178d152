// The demo: submits one application for dev and prod through the public API as an ordinary generator and waits until the agent has
// applied both.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, createClient } from '@brokkr/client'
import { CliError } from '../output.ts'
import { agentLabel, type LocalAgent } from './agent-program.ts'
import type { LocalBroker } from './broker-program.ts'
import { buildManifest, type DemoStack, demoStacks } from './demo-manifest.ts'
import type { StepResult } from './progress.ts'
import type { UpContext } from './up.ts'

const waitLimitMs = 60_000

export async function ensureDemo({ signal }: UpContext, broker: LocalBroker, agent: LocalAgent): Promise<StepResult<void>> {
  const client = createClient({ baseUrl: broker.url, pak: () => agent.generatorPak, userAgent: 'brokkr-up' })
  const applied: string[] = []
  for (const demo of demoStacks) applied.push(await ensureStack(client, { demo, generatorId: agent.generatorId, signal }))
  return { detail: applied.join(' · '), value: undefined }
}

async function ensureStack(client: Client, input: { demo: DemoStack; generatorId: string; signal: AbortSignal }): Promise<string> {
  const { demo, generatorId, signal } = input
  const [existing] = await client.listStacks({ query: { name: demo.stack } })
  const stack =
    existing ??
    (await client.createStack({
      body: { name: demo.stack, description: 'The demo of brokkr up', generator_id: generatorId, labels: [agentLabel] },
    }))
  const params = { id: stack.id }
  const objects = await client.listDeploymentObjects({ params, query: { content: false, limit: 1 } })
  if (objects.length === 0) await client.createDeploymentObject({ params, body: { yaml_content: buildManifest(demo) } })
  const endMs = Date.now() + waitLimitMs
  for (;;) {
    const { agents, desired_sequence_id } = await client.getStackStatus({ params })
    const [one] = agents
    if (one?.phase === 'applied' && one.sequence_id === desired_sequence_id)
      return `stack ${demo.stack} is applied at sequence ${desired_sequence_id}`
    if (Date.now() > endMs)
      throw new CliError(`the demo stack ${demo.stack} was not applied`, {
        next: `brokkr describe stack ${demo.stack}`,
        cause: new Error(`${one?.phase ?? 'no report'} ${one?.code ?? ''} ${one?.message ?? ''}`),
      })
    await sleep(200, undefined, { signal })
  }
}
