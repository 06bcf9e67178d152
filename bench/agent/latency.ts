// From a submission to the changed object, through a real broker and a real agent, beside the sum of the requests that this takes when each is
// sent bare, in turn with the agent: after the same pause, and once more right behind it, warm from the time before, which the bar is about.
import { setTimeout as sleep } from 'node:timers/promises'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker } from '@brokkr/testing/broker.ts'
import type { PrivateCluster } from '@brokkr/testing/servers/kube.ts'
import { percentile, spread, tell } from '../figures.ts'
import { configMap } from '../kube/objects.ts'

const apply = { contentType: 'application/apply-patch+yaml' }
/** Reports of the last submission are on their way. */
const restMs = 200

export async function latency(plane: PrivateCluster, submissions: number): Promise<void> {
  const broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { labels: ['bench'], generators: [tenant] })
  const own = await plane.namespace('agent')
  const namespace = await plane.namespace('work')
  const running = await startTestAgent({
    broker,
    agent,
    kubeconfigPath: plane.kubeconfigPath,
    namespace: own,
    env: { BROKKR__LOG__LEVEL: 'info' },
  })
  const stack = (name: string) =>
    tenant.client.createStack({ body: { name, generator_id: tenant.generator.id, labels: name === 'bench' ? ['bench'] : [] } })
  const [{ id }, { id: nobodys }] = [await stack('bench'), await stack('bare')]
  const submit = (to: typeof id, value: string) =>
    tenant.client.createDeploymentObject({ params: { id: to }, body: { yaml_content: JSON.stringify(configMap(namespace, 1, value)) } })
  const arrivals = await follow(plane, namespace)
  const viaAgent = async (n: number) => void (await Promise.all([arrivals.of(`v${n}`), submit(id, `v${n}`)]))
  await viaAgent(-1)
  const bare = bareRequests(plane, { own, namespace, parentOf: id, submit: (value) => submit(nobodys, value) })
  const took: number[] = []
  const rested: Sample[] = []
  const warm: Sample[] = []
  for (let n = 0; n < submissions; n++) {
    await sleep(restMs)
    took.push(await timed(() => viaAgent(n)))
    await sleep(restMs)
    for (const [at, samples] of [rested, warm].entries()) {
      const sample: Sample = {}
      for (const [name, send] of Object.entries(bare)) sample[name] = await timed(() => send(2 * n + at))
      samples.push(sample)
    }
  }
  await arrivals.stop()
  await running.stop()
  await broker.stop()
  for (const name of Object.keys(bare)) tell(`bare ${name}`, spread(warm.map((sample) => sample[name]!)))
  tell('their sum', spread(warm.map(sumStages)))
  tell('their sum, after a rest', spread(rested.map(sumStages)))
  tell('submission → applied, one small stack', spread(took))
  const beside = (samples: readonly Sample[]) =>
    [0.5, 0.99].map((share) => (percentile(took, share) / percentile(samples.map(sumStages), share)).toFixed(2)).join(' · p99 ')
  tell('submission → applied / sum of bare requests (bar 1.5)', beside(warm))
  tell('the same beside those after a rest (no bar)', beside(rested))
}

/** Milliseconds by request. */
type Sample = Record<string, number>

const sumStages = (sample: Sample): number => Object.values(sample).reduce((sum, ms) => sum + ms, 0)

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedMs = performance.now()
  await work()
  return performance.now() - startedMs
}

/** What one revision of a stack with one object takes, by plain calls. */
function bareRequests(
  plane: PrivateCluster,
  at: { own: string; namespace: string; parentOf: string; submit: (value: string) => Promise<unknown> },
): Record<string, (n: number) => Promise<unknown>> {
  const objects = `/api/v1/namespaces/${at.namespace}/configmaps`
  const labels = encodeURIComponent('applyset.kubernetes.io/part-of=x')
  const patch = (n: number, more: string) =>
    plane.api('PATCH', `${objects}/c2?fieldManager=bare&force=true${more}`, { ...apply, body: configMap(at.namespace, 2, `v${n}`) })
  return {
    submission: (n) => at.submit(`bare${n}`),
    'read of the parent': () => plane.api('GET', `/api/v1/namespaces/${at.own}/secrets/brokkr-stack-${at.parentOf}`),
    'list of the members': () => plane.api('GET', `${objects}?labelSelector=${labels}`),
    'dry run': (n) => patch(n, '&dryRun=All'),
    apply: (n) => patch(n, ''),
  }
}

/** Tells when a value has come to stand in the cluster. */
async function follow(plane: PrivateCluster, namespace: string): Promise<{ of(value: string): Promise<void>; stop(): Promise<void> }> {
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: process.env }))
  const waiting = new Map<string, () => void>()
  const following = (async () => {
    for await (const { object } of kube.watch({ apiVersion: 'v1', kind: 'ConfigMap' }, { namespace }))
      if (object.metadata.name === 'c1') waiting.get(String(object.data?.['value']))?.()
  })().catch(() => undefined)
  return {
    of: (value) => new Promise((resolve) => void waiting.set(value, resolve)),
    stop: async () => {
      await kube.close()
      await following
    },
  }
}
