// The manifest that an invite gives, on an API server of its own that holds to RBAC: applied as it is, its account is enough for an
// agent to join and to deploy. The image is not pulled: the agent runs as a process with what its Deployment would give it.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Preset } from '@brokkr/contract/agent-invite.ts'
import { createClient } from '@brokkr/contract/client.ts'
import { parseManifest } from '@brokkr/contract/manifest.ts'
import { openKube } from '@brokkr/kube/client.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { makeGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/kube.ts'
import { logLine } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { joiningAgent } from './test-parts/joining-agent.ts'

const image = 'registry.example.com/brokkr-agent@sha256:0123456789abcdef'
let at: PrivateCluster
let broker: TestBroker
let kube: Kube
beforeAll(async () => {
  at = await privateCluster()
  broker = await startTestBroker({ env: { BROKKR__BROKER__AGENT_IMAGE: image } })
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  return async () => {
    await kube.close()
    await broker.kill()
    await at.stop()
  }
}, 120_000)

const manifestOf = async (token: string): Promise<KubeObject[]> => {
  const answer = await createClient({ baseUrl: broker.url }).answer('getJoinManifest', {}, { headers: { authorization: `Join ${token}` } })
  expect(answer.header('content-type')).toBe('application/yaml; charset=utf-8')
  return parseManifest(answer.body).map(({ object }) => object as unknown as KubeObject)
}
const applyAll = async (objects: readonly KubeObject[]) => {
  for (const object of objects) await kube.apply(object, { fieldManager: 'kubectl', force: true, fieldValidation: 'Strict' })
}

test.each<[Preset, string[]]>([
  ['standard', []],
  ['namespaced', ['shop', 'pay']],
  ['cluster-admin', []],
  ['observe', []],
])('the manifest of preset %s is taken as it is, twice, and spends no use', async (preset, namespaces) => {
  for (const name of namespaces)
    await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }, { fieldManager: 'test', force: true })
  const invite = await broker.admin.createAgentInvite({ body: { name_prefix: 'edge-', preset, namespaces } })
  const objects = await manifestOf(invite.token)
  await applyAll(objects)
  await applyAll(objects)
  expect((await broker.admin.getAgentInvite({ params: { id: invite.id } })).uses_left).toBe(1)
  const secret = objects.find(({ kind }) => kind === 'Secret') as unknown as { stringData: { token: string } }
  expect(secret.stringData.token).toBe(invite.token)
})

test('an agent with the rights of the standard preset and the token of the Secret joins, and deploys what its generator submits', async () => {
  const tenant = await makeGenerator(broker)
  const [name, namespace, label] = [unique('edge'), await at.namespace('shop'), unique('l')]
  const invite = await broker.admin.createAgentInvite({ body: { name, labels: [label], generator_ids: [tenant.generator.id] } })
  const objects = await manifestOf(invite.token)
  await applyAll(objects)
  const deployment = objects.at(-1) as unknown as {
    spec: { template: { spec: { containers: { image: string; env: { name: string; value: string }[] }[] } } }
  }
  const [container] = deployment.spec.template.spec.containers
  expect(container?.image).toBe(image)
  const { BROKKR__AGENT__JOIN_TOKEN_FILE: mounted, ...env } = Object.fromEntries(container!.env.map((one) => [one.name, one.value]))
  expect(mounted).toBe('/var/run/brokkr/join/token')
  expect(env['BROKKR__AGENT__BROKER_URL']).toBe(broker.url)

  const account = '/api/v1/namespaces/brokkr-agent/serviceaccounts/brokkr-agent/token'
  const issued = await at.api<{ status: { token: string } }>('POST', account, {
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  })
  expect(issued.status).toBe(201)
  const kubeconfigPath = join(at.dir, 'agent.kubeconfig')
  const user = { name: 'agent', user: { token: issued.json.status.token } }
  const cluster = { name: 'c', cluster: { server: at.url, 'certificate-authority-data': Buffer.from(at.caPem).toString('base64') } }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [cluster],
    users: [user],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'agent' } }],
    'current-context': 'x',
  }
  await writeFile(kubeconfigPath, JSON.stringify(config), { mode: 0o600 })

  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const meta = { name: 'web', namespace }
  const pod = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'example.com/web' }] } }
  const submitted = [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: meta, data: { a: '1' } },
    { apiVersion: 'v1', kind: 'Secret', metadata: meta, stringData: { a: '1' } },
    { apiVersion: 'v1', kind: 'Service', metadata: meta, spec: { selector: { app: 'web' }, ports: [{ port: 80 }] } },
    { apiVersion: 'apps/v1', kind: 'Deployment', metadata: meta, spec: { selector: { matchLabels: { app: 'web' } }, template: pod } },
  ]
  const submit = (documents: readonly object[]) =>
    tenant.client.createDeploymentObject({
      params: { id: stack.id },
      body: { yaml_content: documents.map((one) => JSON.stringify(one)).join('\n---\n') },
    })
  await submit(submitted)
  const agent = await joiningAgent({ brokerUrl: broker.url, token: invite.token, name, kubeconfigPath, namespace: 'brokkr-agent', env })
  const running = await agent.start()
  try {
    await logLine(running, 'agent ready')
    const applied = (sequence: number) =>
      waitFor(
        `revision ${sequence}`,
        async () => {
          const [status] = (await tenant.client.getStackStatus({ params: { id: stack.id } })).agents
          return status?.phase === 'applied' && status.sequence_id === sequence
        },
        {
          limitMs: 60_000,
          onTimeout: async () =>
            `${JSON.stringify(await tenant.client.getStackStatus({ params: { id: stack.id } }))}\n${running.logTail(20)}`,
        },
      )
    await applied(1)
    // Pruned as well: the Service goes with the next revision.
    await submit(submitted.filter(({ kind }) => kind !== 'Service'))
    await applied(2)
    const found = await Promise.all(submitted.map(({ apiVersion, kind }) => kube.find({ apiVersion, kind, ...meta })))
    expect(found.map((object) => object !== undefined)).toEqual([true, true, false, true])
    // Nothing it needs for its own work was refused.
    const refused = running.lines().filter((line) => /forbidden/i.test(JSON.stringify(line)))
    expect(refused).toEqual([])
  } finally {
    await running.kill()
  }
}, 180_000)
