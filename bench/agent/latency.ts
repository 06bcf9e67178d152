// From a submission to the changed object, through a real broker and a real agent, beside the sum of the requests that this takes
// when each is sent bare, one after the other.

import { openKube } from '@brokkr/kube/client.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { makeAgent, makeGenerator, startTestBroker } from '@brokkr/testing/broker.ts'
import type { PrivateCluster } from '@brokkr/testing/kube.ts'
import { percentile, spread, tell } from '../figures.ts'
import { configMap } from '../kube/objects.ts'

const apply = { contentType: 'application/apply-patch+yaml' }

export async function latency(plane: PrivateCluster, submissions: number): Promise<void> {
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
    env: { BROKKR__LOG__LEVEL: 'info' },
  })
  const { id } = await tenant.client.createStack({ body: { name: 'bench', generator_id: tenant.generator.id, labels: ['bench'] } })
  const submit = (value: string) =>
    tenant.client.createDeploymentObject({ params: { id }, body: { yaml_content: JSON.stringify(configMap(namespace, 1, value)) } })
  const path = `/api/v1/namespaces/${namespace}/configmaps/c1`
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: process.env }))
  const arrivals = new Map<string, () => void>()
  const arrived = (value: string) => new Promise<void>((resolve) => void arrivals.set(value, resolve))
  const following = (async () => {
    for await (const { object } of kube.watch({ apiVersion: 'v1', kind: 'ConfigMap' }, { namespace }))
      arrivals.get(String(object.data?.['value']))?.()
  })().catch(() => undefined)
  const took: number[] = []
  for (let n = 0; n < submissions; n++) {
    const startedMs = performance.now()
    const [seen] = [arrived(`v${n}`), await submit(`v${n}`)]
    await seen
    took.push(performance.now() - startedMs)
    // Reports of the last one are on their way.
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  await kube.close()
  await following
  const parent = `/api/v1/namespaces/${own}/secrets/brokkr-stack-${id}`
  const labels = encodeURIComponent('applyset.kubernetes.io/part-of=x')
  const body = (value: string) => configMap(namespace, 2, value)
  const bare = {
    submission: (n: number) => submit(`bare${n}`),
    'read of the parent': () => plane.api('GET', parent),
    'list of the members': () => plane.api('GET', `/api/v1/namespaces/${namespace}/configmaps?labelSelector=${labels}`),
    'dry run': (n: number) =>
      plane.api('PATCH', `${path.replace('c1', 'c2')}?fieldManager=bare&force=true&dryRun=All`, { ...apply, body: body(`v${n}`) }),
    apply: (n: number) => plane.api('PATCH', `${path.replace('c1', 'c2')}?fieldManager=bare&force=true`, { ...apply, body: body(`v${n}`) }),
  }
  await running.stop()
  let sumMs = 0
  for (const [name, send] of Object.entries(bare)) {
    const sample: number[] = []
    for (let n = 0; n < submissions; n++) {
      const startedMs = performance.now()
      await send(n)
      sample.push(performance.now() - startedMs)
    }
    sumMs += percentile(sample, 0.5)
    tell(`bare ${name}`, spread(sample))
  }
  tell('submission → applied, one small stack', spread(took))
  tell('submission → applied / sum of bare requests (bar 1.5)', (percentile(took, 0.5) / sumMs).toFixed(2))
  await broker.stop()
}
