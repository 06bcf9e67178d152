// The agent of a local installation: created through the public API once, then run as a supervised process.
import { join } from 'node:path'
import { createClient } from '@brokkr/contract/client.ts'
import { freePort } from '@brokkr/local/free-ports.ts'
import type { BrokerAt } from './broker-program.ts'
import { readOrMake } from './keys.ts'
import type { Practice } from './practice.ts'
import { programOf } from './program-of.ts'
import type { Done } from './progress.ts'
import type { UpContext } from './up.ts'

export interface AgentAt {
  readonly agentId: string
  readonly generatorId: string
  readonly generatorPak: string
}
export const agentLabel = 'env:practice'

export async function startAgentProgram({ supervisor }: UpContext, broker: BrokerAt, practice: Practice): Promise<Done<AgentAt>> {
  const client = createClient({ baseUrl: broker.url, pak: () => broker.adminPak, userAgent: 'brokkr-up' })
  const { clusterName } = practice
  let generatorId = (await client.listGenerators({ query: { name: 'demo' } }))[0]?.id
  const generatorPak = await readOrMake(join(broker.keysDir, 'demo-generator.pak'), async () => {
    const made = await client.createGenerator({ body: { name: 'demo', description: 'Submits the demo of brokkr up' } })
    generatorId = made.generator.id
    return made.pak
  })
  const pakFile = join(broker.keysDir, `agent-${clusterName}.pak`)
  await readOrMake(pakFile, async () => {
    const body = {
      name: clusterName,
      cluster_name: clusterName,
      status: 'ACTIVE',
      labels: [agentLabel],
      generator_ids: [generatorId!, await adminGenerator()],
    }
    return (await client.createAgent({ body })).initial_pak
  })
  const agentId = (await client.listAgents({ query: { name: clusterName } }))[0]!.id
  const healthPort = await freePort()
  await supervisor.start({
    name: `agent-${clusterName}`,
    ...programOf('agent'),
    env: {
      BROKKR__AGENT__BROKER_URL: broker.url,
      BROKKR__AGENT__AGENT_NAME: clusterName,
      BROKKR__AGENT__CLUSTER_NAME: clusterName,
      BROKKR__AGENT__PAK_FILE: pakFile,
      BROKKR__AGENT__KUBECONFIG_PATH: practice.kubeconfigPath,
      BROKKR__AGENT__HEALTH_PORT: String(healthPort),
    },
    ports: { health: healthPort },
    ready: `http://127.0.0.1:${healthPort}/readyz`,
    readyLimitMs: 60_000,
  })
  return { detail: `"${clusterName}" follows the broker`, value: { agentId, generatorId: generatorId!, generatorPak } }

  async function adminGenerator() {
    return (await client.listGenerators({ query: { name: 'admin-generator' } }))[0]!.id
  }
}
