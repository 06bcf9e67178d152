import { readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker, unique } from '@brokkr/testing/broker.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { bundleAgent } from './bundle-agent.mjs'

test('the agent is one file that runs by itself, works, and ends in good order', async () => {
  const file = await bundleAgent()
  expect(readdirSync(dirname(file))).toEqual(['agent.mjs'])
  // Node's own modules are asked for as values, and nothing else is left to import.
  expect(readFileSync(file, 'utf8')).not.toMatch(/^import\b|[;}]import[ {*]/m)
  const at = await cluster({ controllers: false })
  const broker = await startTestBroker()
  const tenant = await createGenerator(broker)
  const label = unique('env')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const [own, namespace] = [await at.namespace('agent'), await at.namespace('bundle')]
  const running = await startTestAgent({
    broker,
    agent,
    kubeconfigPath: at.kubeconfigPath,
    namespace: own,
    program: { main: 'packages/agent/dist/bundle/agent.mjs', nodeFlags: [] },
  })
  try {
    const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels: [label] } })
    const yaml_content = `{apiVersion: v1, kind: ConfigMap, metadata: {name: bundled, namespace: ${namespace}}}`
    await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
    await waitFor('the object', async () => (await at.api('GET', `/api/v1/namespaces/${namespace}/configmaps/bundled`)).status === 200)
    expect(await running.stop()).toBe(0)
    // The Lease is given back, so that a successor need not wait for it.
    const lease = await at.api('GET', `/apis/coordination.k8s.io/v1/namespaces/${own}/leases/brokkr-agent`)
    expect((lease.json as { spec: { holderIdentity?: string } }).spec.holderIdentity ?? '').toBe('')
    const status = await tenant.client.getStackStatus({ params: { id: stack.id } })
    expect(status.agents[0]?.phase).toBe('applied')
  } finally {
    await running.kill().catch(() => undefined)
    await broker.kill()
  }
}, 300_000)
