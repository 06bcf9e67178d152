// Resident memory of the agent's own process, run as it is shipped: idle with all objects applied, and while another client keeps editing them.
// Also measures the CPU of an idle agent and the time until an edit is healed. Under drift the resync interval is 20 s instead of 10 min.
// Controllers run: each stack has a Deployment with pods, and pods and Events of other owners fill the cluster.
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker } from '@brokkr/testing/broker.ts'
import type { PrivateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { agentEnv, agentFlags, bundleAgent } from '../../scripts/bundle-agent.mjs'
import { readCpuSeconds } from '../child.ts'
import { percentile, residentMib, spread, tell } from '../figures.ts'
import { configMapText } from '../kube/objects.ts'

export async function memory(
  plane: PrivateCluster,
  dir: string,
  size: { objects: number; stacks: number; pods: number; events: number; quietSeconds: number; driftSeconds: number },
): Promise<void> {
  const broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { labels: ['bench'], generators: [tenant] })
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
    const configMaps = Array.from({ length: perStack }, (_, n) => configMapText(namespace, stack * perStack + n, 'a'))
    const yaml_content = [...configMaps, deploymentText(namespace, `web-${stack}`)].join('\n---\n')
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
  await waitFor('all objects', async () => (await managed()) === size.objects + size.stacks && (await applied()) === size.stacks, {
    limitMs: 1_800_000,
    everyMs: 1_000,
  })
  const peakApplying = peakMib(running.pid)
  const beforeMib = residentMib(running.pid)
  await fillCluster(plane, size)
  tell(
    `agent, RSS before and after ${size.pods} pods and ${size.events} Events of others`,
    `${beforeMib.toFixed(0)} → ${residentMib(running.pid).toFixed(0)} MiB`,
  )
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

const podsPerDeployment = 4
const podSpec = { containers: [{ name: 'main', image: 'example.invalid/web:1' }] }

const deploymentText = (namespace: string, name: string): string =>
  JSON.stringify({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace },
    spec: {
      replicas: podsPerDeployment,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: podSpec },
    },
  })

/** Objects that belong to no stack: pods that no node runs, and Events about them. */
async function fillCluster(plane: PrivateCluster, { pods, events }: { pods: number; events: number }): Promise<void> {
  const namespace = await plane.namespace('others')
  const metadata = (name: string) => ({ name, namespace })
  const involvedObject = { apiVersion: 'v1', kind: 'Pod', namespace, name: 'p0', uid: randomUUID() }
  const post = (path: string, body: object) => plane.api('POST', `/api/v1/namespaces/${namespace}/${path}`, { body })
  await mapBounded([...Array(pods).keys()], 16, (n) =>
    post('pods', { apiVersion: 'v1', kind: 'Pod', metadata: metadata(`p${n}`), spec: podSpec }),
  )
  const message = 'Back-off pulling image "example.invalid/web:1": ErrImagePull: rpc error: code = NotFound '.repeat(3)
  await mapBounded([...Array(events).keys()], 16, (n) =>
    post('events', {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: metadata(`e${n}`),
      reason: 'BackOff',
      type: 'Warning',
      message,
      involvedObject,
    }),
  )
}

/** Samples memory every half second and the share of a core, after earlier work has settled. */
async function idle(pid: number, seconds: number): Promise<{ samples: number[]; cpuShare: number }> {
  await sleep(10_000)
  const samples: number[] = []
  const startedMs = performance.now()
  const before = readCpuSeconds(pid)
  while (performance.now() < startedMs + seconds * 1000) {
    await sleep(500)
    samples.push(residentMib(pid))
  }
  return { samples, cpuShare: (readCpuSeconds(pid) - before) / ((performance.now() - startedMs) / 1000) }
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
