// The agent of a local installation: created through the public API once, then run as a supervised process.
import { join } from 'node:path'
import { createClient } from '@brokkr/client'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import type { LocalBroker } from './broker-program.ts'
import type { LocalCluster } from './local-cluster.ts'
import { readOrGenerate } from './paks.ts'
import type { StepResult } from './progress.ts'
import { findStartCommand } from './start-command.ts'
import type { UpContext } from './up.ts'

export interface LocalAgent {
  readonly agentId: string
  readonly generatorId: string
  readonly generatorPak: string
}
export const agentLabel = 'env:practice'

export async function startAgentProgram(
  { supervisor }: UpContext,
  broker: LocalBroker,
  practice: LocalCluster,
): Promise<StepResult<LocalAgent>> {
  const client = createClient({ baseUrl: broker.url, pak: () => broker.adminPak, userAgent: 'brokkr-up' })
  const { clusterName } = practice
  let generatorId = (await client.listGenerators({ query: { name: 'demo' } }))[0]?.id
  const generatorPak = await readOrGenerate(join(broker.keysDir, 'demo-generator.pak'), async () => {
    const response = await client.createGenerator({ body: { name: 'demo', description: 'Submits the demo of brokkr up' } })
    generatorId = response.generator.id
    return response.pak
  })
  const pakFile = join(broker.keysDir, `agent-${clusterName}.pak`)
  await readOrGenerate(pakFile, async () => {
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
  const program = findStartCommand('agent')
  await supervisor.start({
    name: `agent-${clusterName}`,
    ...program,
    env: {
      ...program.env,
      BROKKR__AGENT__BROKER_URL: broker.url,
      BROKKR__AGENT__AGENT_NAME: clusterName,
      BROKKR__AGENT__CLUSTER_NAME: clusterName,
      BROKKR__AGENT__PAK_FILE: pakFile,
      BROKKR__AGENT__KUBECONFIG_PATH: practice.kubeconfigPath,
      BROKKR__AGENT__HEALTH_PORT: String(healthPort),
      // A person waits for the demo to become healthy.
      BROKKR__AGENT__DEPLOYMENT_HEALTH_INTERVAL: '5',
    },
    ports: { health: healthPort },
    ready: `http://127.0.0.1:${healthPort}/readyz`,
    readyLimitMs: 60_000,
  })
  return { detail: `"${clusterName}" is connected to the broker`, value: { agentId, generatorId: generatorId!, generatorPak } }

  async function adminGenerator() {
    return (await client.listGenerators({ query: { name: 'admin-generator' } }))[0]!.id
  }
}
