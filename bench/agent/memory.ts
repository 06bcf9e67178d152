// Resident memory of the agent's own process, run as it is shipped: idle with all objects applied, and while somebody keeps editing them.
// Beside it what idling costs, and how soon an edit is healed. Under drift it looks at everything every 20 s instead of every 10 min.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openKube } from '@brokkr/kube/client.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { makeAgent, makeGenerator, startTestBroker } from '@brokkr/testing/broker.ts'
import type { PrivateCluster } from '@brokkr/testing/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { agentEnv, agentFlags, bundleAgent } from '../../scripts/bundle-agent.mjs'
import { cpuSecondsOf } from '../child.ts'
import { percentile, residentMib, spread, tell } from '../figures.ts'
import { configMapText } from '../kube/objects.ts'

export async function memory(
  plane: PrivateCluster,
  dir: string,
  size: { objects: number; stacks: number; quietSeconds: number; driftSeconds: number },
): Promise<void> {
  const broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  const tenant = await makeGenerator(broker)
  const agent = await makeAgent(broker, { labels: ['bench'], generators: [tenant] })
  const own = await plane.namespace('agent')
  const namespace = await plane.namespace('work')
  const settings = join(dir, 'agent.yaml')
  writeFileSync(settings, 'agent: {}')
  const running = await startTestAgent({
    broker,
    agent,
    kubeconfigPath: plane.kubeconfigPath,
    namespace: own,
    env: {
      BROKKR__LOG__LEVEL: 'info',
      BROKKR_CONFIG_FILE: settings,
      BROKKR__AGENT__LEASE_SECONDS: '15',
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
  const quiet = await idle(running.pid, size.quietSeconds)
  const healed = await heals(plane, namespace, { edits: size.stacks, every: perStack })
  writeFileSync(settings, 'agent: { resync_interval: 20 }')
  await waitFor('the new setting', () => running.text().includes('settings changed'), { limitMs: 120_000, everyMs: 500 })
  const samples: number[] = []
  const untilMs = performance.now() + size.driftSeconds * 1000
  for (let n = 0; performance.now() < untilMs; n += 8) {
    await mapBounded(
      Array.from({ length: 8 }, (_, at) => (n + at) % size.objects),
      4,
      (each) => edit(plane, namespace, each),
    )
    samples.push(residentMib(running.pid))
  }
  tell('agent, RSS with nothing to do', `${empty.toFixed(0)} MiB`)
  tell(`agent, RSS peak while applying ${size.objects}`, `${peakApplying.toFixed(0)} MiB`)
  tell(
    `agent, RSS with ${size.objects} objects, idle (bar 128)`,
    `p50 ${percentile(quiet.samples, 0.5).toFixed(0)} MiB · highest ${Math.max(...quiet.samples).toFixed(0)} MiB`,
  )
  tell('agent, CPU while idle (bar 1 % of a core)', `${(quiet.cpuShare * 100).toFixed(2)} %`)
  tell('an edit by another hand → healed (bar 1 s)', spread(healed))
  tell(
    `agent, RSS with ${size.objects} objects under drift (bar 128)`,
    `p50 ${percentile(samples, 0.5).toFixed(0)} MiB · highest ${Math.max(...samples).toFixed(0)} MiB`,
  )
  await running.stop()
  await broker.stop()
}

/** Memory every half second and the share of a core, once what was just done is done with. */
async function idle(pid: number, seconds: number): Promise<{ samples: number[]; cpuShare: number }> {
  await sleep(10_000)
  const samples: number[] = []
  const startedMs = performance.now()
  const before = cpuSecondsOf(pid)
  while (performance.now() < startedMs + seconds * 1000) {
    await sleep(500)
    samples.push(residentMib(pid))
  }
  return { samples, cpuShare: (cpuSecondsOf(pid) - before) / ((performance.now() - startedMs) / 1000) }
}

/** One edit at a time, each in another stack, from the moment it is sent. */
async function heals(plane: PrivateCluster, namespace: string, { edits, every }: { edits: number; every: number }): Promise<number[]> {
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: process.env }))
  const waiting = new Map<string, () => void>()
  const edited = new Set<string>()
  const following = (async () => {
    for await (const { object } of kube.watch({ apiVersion: 'v1', kind: 'ConfigMap' }, { namespace })) {
      const { name } = object.metadata
      if (object.data?.['value'] === 'theirs') edited.add(name)
      else if (edited.delete(name)) waiting.get(name)?.()
    }
  })().catch(() => undefined)
  const took: number[] = []
  for (let n = 0; n < edits; n++) {
    const isHealed = new Promise<void>((resolve) => void waiting.set(`c${n * every}`, resolve))
    const startedMs = performance.now()
    await edit(plane, namespace, n * every)
    await isHealed
    took.push(performance.now() - startedMs)
  }
  await kube.close()
  await following
  return took
}

const edit = (plane: PrivateCluster, namespace: string, n: number): Promise<unknown> =>
  plane.api('PATCH', `/api/v1/namespaces/${namespace}/configmaps/c${n}?fieldManager=rival`, {
    body: { data: { value: 'theirs' } },
    contentType: 'application/merge-patch+json',
  })

const peakMib = (pid: number): number => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
