// Resident memory of the agent's own process, run as it is shipped: idle with all objects applied, and while somebody keeps editing them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { makeAgent, makeGenerator, startTestBroker } from '@brokkr/testing/broker.ts'
import type { PrivateCluster } from '@brokkr/testing/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { agentEnv, agentFlags, bundleAgent } from '../../scripts/bundle-agent.mjs'
import { percentile, residentMib, tell } from '../figures.ts'
import { configMapText } from '../kube/objects.ts'

export async function memory(
  plane: PrivateCluster,
  dir: string,
  size: { objects: number; stacks: number; driftSeconds: number },
): Promise<void> {
  const broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  const tenant = await makeGenerator(broker)
  const agent = await makeAgent(broker, { labels: ['bench'], generators: [tenant] })
  const own = await plane.namespace('agent')
  const namespace = await plane.namespace('work')
  const running = await startTestAgent({
    broker,
    agent,
    kubeconfigPath: plane.kubeconfigPath,
    namespace: own,
    env: {
      BROKKR__LOG__LEVEL: 'info',
      BROKKR__AGENT__RESYNC_INTERVAL: '20',
      ...agentEnv,
    },
    program: { main: await bundleAgent(join(dir, 'bundle')), nodeFlags: agentFlags },
  })
  const empty = residentMib(running.pid)
  const perStack = size.objects / size.stacks
  for (let stack = 0; stack < size.stacks; stack++) {
    const { id } = await tenant.client.createStack({
      body: { name: `bench-${stack}`, generator_id: tenant.generator.id, labels: ['bench'] },
    })
    const yaml_content = Array.from({ length: perStack }, (_, n) => configMapText(namespace, stack * perStack + n, 'a')).join('\n---\n')
    await tenant.client.createDeploymentObject({ params: { id }, body: { yaml_content } })
  }
  const managed = async () => {
    const text = await (await fetch(`${running.healthUrl}/metrics`)).text()
    return Number(/^brokkr_agent_managed_objects (\d+)/m.exec(text)?.[1] ?? 0)
  }
  const applied = async () => {
    const text = await (await fetch(`${running.healthUrl}/metrics`)).text()
    return Number(/^brokkr_agent_stacks\{phase="applied"\} (\d+)/m.exec(text)?.[1] ?? 0)
  }
  await waitFor('all objects', async () => (await managed()) === size.objects && (await applied()) === size.stacks, {
    limitMs: 1_800_000,
    everyMs: 1_000,
  })
  const peakApplying = peakMib(running.pid)
  const samples: number[] = []
  const untilMs = performance.now() + size.driftSeconds * 1000
  for (let n = 0; performance.now() < untilMs; n += 8) {
    await mapBounded(
      Array.from({ length: 8 }, (_, at) => (n + at) % size.objects),
      4,
      async (each) => {
        await plane.api('PATCH', `/api/v1/namespaces/${namespace}/configmaps/c${each}?fieldManager=rival`, {
          body: { data: { value: 'theirs' } },
          contentType: 'application/merge-patch+json',
        })
      },
    )
    samples.push(residentMib(running.pid))
  }
  tell('agent, RSS with nothing to do', `${empty.toFixed(0)} MiB`)
  tell(`agent, RSS peak while applying ${size.objects}`, `${peakApplying.toFixed(0)} MiB`)
  tell(
    `agent, RSS with ${size.objects} objects under drift (bar 128)`,
    `p50 ${percentile(samples, 0.5).toFixed(0)} MiB · highest ${Math.max(...samples).toFixed(0)} MiB`,
  )
  await running.stop()
  await broker.stop()
}

const peakMib = (pid: number): number => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
