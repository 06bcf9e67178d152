// The manifest that an invite gives, on an API server of its own that holds to RBAC: taken as it is, and the rights in it are enough
// for an agent to join and to deploy, and for no more. No image is pulled: the agent runs as a process with what its Deployment says.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@brokkr/contract/client.ts'
import type { Preset } from '@brokkr/contract/invites/agent-invite.ts'
import { parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { type Kube, type KubeObject, loadKubeconfig, openKube } from '@brokkr/kube'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { logLine } from '@brokkr/testing/program.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { joiningAgent } from '../test-parts/joining-agent.ts'

const image = 'registry.example.com/brokkr-agent@sha256:0123456789abcdef'
const own = 'brokkr-agent'
let at: PrivateCluster
let broker: TestBroker
let kube: Kube
let tenant: TestGenerator
beforeAll(async () => {
  at = await privateCluster()
  broker = await startTestBroker({ env: { BROKKR__BROKER__AGENT_IMAGE: image } })
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  tenant = await createGenerator(broker)
  for (const name of ['shop', 'pay']) await kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  return async () => {
    await kube.close()
    await broker.kill()
    await at.stop()
  }
}, 120_000)

/** Nothing of the agent before: neither its rights nor its key. */
beforeEach(async () => {
  const rbac = '/apis/rbac.authorization.k8s.io/v1'
  for (const namespace of [own, 'shop', 'pay'])
    for (const path of [`${rbac}/namespaces/${namespace}/roles`, `${rbac}/namespaces/${namespace}/rolebindings`])
      await at.api('DELETE', path)
  for (const path of [`/api/v1/namespaces/${own}/secrets`, `/apis/coordination.k8s.io/v1/namespaces/${own}/leases`])
    await at.api('DELETE', path)
  for (const kind of ['ClusterRole', 'ClusterRoleBinding']) {
    const { items } = await kube.list({ apiVersion: 'rbac.authorization.k8s.io/v1', kind })
    for (const { metadata } of items)
      if (metadata.name.startsWith(own)) await kube.delete({ apiVersion: 'rbac.authorization.k8s.io/v1', kind, name: metadata.name })
  }
})

/** Applied as it came, twice, as `kubectl apply --server-side` does it. */
async function applyManifest(token: string): Promise<KubeObject[]> {
  const answer = await createClient({ baseUrl: broker.url }).call('getJoinManifest', {}, { headers: { authorization: `Join ${token}` } })
  expect(answer.header('content-type')).toBe('application/yaml; charset=utf-8')
  const objects = parseManifest(answer.body).map(({ object }) => object as unknown as KubeObject)
  for (const object of [...objects, ...objects])
    await kube.apply(object, { fieldManager: 'kubectl', force: true, fieldValidation: 'Strict' })
  return objects
}

/** What the kubelet would give the agent's container. */
async function containerOf(objects: readonly KubeObject[]) {
  type Deployment = { spec: { template: { spec: { containers: { image: string; env: { name: string; value: string }[] }[] } } } }
  const [container] = (objects.at(-1) as unknown as Deployment).spec.template.spec.containers
  const { token } = (objects.find(({ kind }) => kind === 'Secret') as unknown as { stringData: { token: string } }).stringData
  const { BROKKR__AGENT__JOIN_TOKEN_FILE: mounted, ...env } = Object.fromEntries(container!.env.map(({ name, value }) => [name, value]))
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
  const path = `/api/v1/namespaces/${own}/serviceaccounts/brokkr-agent/token`
  const issued = await at.api<{ status: { token: string } }>('POST', path, { body: request })
  const kubeconfigPath = join(at.dir, `${unique('agent')}.kubeconfig`)
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: at.url, 'certificate-authority-data': Buffer.from(at.caPem).toString('base64') } }],
    users: [{ name: 'agent', user: { token: issued.json.status.token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'agent' } }],
    'current-context': 'x',
  }
  await writeFile(kubeconfigPath, JSON.stringify(config), { mode: 0o600 })
  return { image: container!.image, token, mounted, env, kubeconfigPath, accountToken: issued.json.status.token }
}

/** Whether the API server would let the account do so. */
async function may(token: string, resourceAttributes: Record<string, string>): Promise<boolean> {
  const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } }
  const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
  return (await at.api<{ status: { allowed: boolean } }>('POST', path, { body: review, token })).json.status.allowed
}
const rbacGroup = 'rbac.authorization.k8s.io'
/** Each with the presets that have it. */
const reach: [Record<string, string>, Preset[]][] = [
  [{ verb: 'create', group: rbacGroup, resource: 'clusterroles' }, ['cluster-admin']],
  [{ verb: 'create', group: rbacGroup, resource: 'rolebindings', namespace: 'shop' }, ['cluster-admin']],
  [{ verb: 'impersonate', resource: 'users' }, ['cluster-admin']],
  [{ verb: 'create', resource: 'namespaces' }, ['standard', 'cluster-admin']],
  [{ verb: 'list', resource: 'secrets', namespace: 'kube-system' }, ['standard', 'cluster-admin']],
  [{ verb: 'patch', group: 'apps', resource: 'deployments', namespace: 'default' }, ['standard', 'cluster-admin']],
  [{ verb: 'patch', group: 'apps', resource: 'deployments', namespace: 'pay' }, ['standard', 'namespaced', 'cluster-admin']],
  [{ verb: 'list', group: 'apps', resource: 'deployments', namespace: 'default' }, ['standard', 'cluster-admin', 'observe']],
]

const meta = { name: 'web', namespace: 'shop' }
const pod = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'example.com/web' }] } }
const workload = [
  { apiVersion: 'v1', kind: 'ConfigMap', metadata: meta, data: { a: '1' } },
  { apiVersion: 'v1', kind: 'Secret', metadata: meta, stringData: { a: '1' } },
  { apiVersion: 'v1', kind: 'Service', metadata: meta, spec: { selector: { app: 'web' }, ports: [{ port: 80 }] } },
  { apiVersion: 'apps/v1', kind: 'Deployment', metadata: meta, spec: { selector: { matchLabels: { app: 'web' } }, template: pod } },
]

test.each<[Preset, string[], string]>([
  ['standard', [], 'applied null'],
  ['namespaced', ['shop', 'pay'], 'applied null'],
  ['cluster-admin', [], 'applied null'],
  ['observe', [], 'held observe'],
])(
  'with the manifest of preset %s an agent joins, and what is submitted to it is %s %s',
  async (preset, namespaces, expected) => {
    const [name, label] = [unique('edge'), unique('l')]
    const invite = await broker.admin.createAgentInvite({
      body: { name, labels: [label], generator_ids: [tenant.generator.id], preset, namespaces },
    })
    const container = await containerOf(await applyManifest(invite.token))
    // It was read and not used.
    expect((await broker.admin.getAgentInvite({ params: { id: invite.id } })).uses_left).toBe(1)
    expect([container.image, container.token, container.mounted]).toEqual([image, invite.token, '/var/run/brokkr/join/token'])
    expect(container.env['BROKKR__AGENT__BROKER_URL']).toBe(broker.url)
    for (const [attributes, presets] of reach)
      expect([attributes, await may(container.accountToken, attributes)]).toEqual([attributes, presets.includes(preset)])
    const { id } = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
    const submit = (documents: readonly object[]) =>
      tenant.client.createDeploymentObject({
        params: { id },
        body: { yaml_content: documents.map((one) => JSON.stringify(one)).join('\n---\n') },
      })
    await submit(workload)
    const agent = await joiningAgent({ ...container, brokerUrl: broker.url, name, namespace: own })
    const running = await agent.start()
    try {
      await logLine(running, 'agent ready')
      const reported = (sequence: number) =>
        waitFor(
          `revision ${sequence} to be ${expected}`,
          async () => {
            const [status] = (await tenant.client.getStackStatus({ params: { id } })).agents
            return status?.sequence_id === sequence && `${status.phase} ${status.code}` === expected
          },
          {
            limitMs: 60_000,
            onTimeout: async () => `${JSON.stringify(await tenant.client.getStackStatus({ params: { id } }))}\n${running.logTail(20)}`,
          },
        )
      await reported(1)
      // Removed as well: the Service is not in the next revision.
      await submit(workload.filter(({ kind }) => kind !== 'Service'))
      await reported(2)
      const found = await Promise.all(workload.map(({ apiVersion, kind }) => kube.find({ apiVersion, kind, ...meta })))
      expect(found.map((object) => object !== undefined)).toEqual(
        expected === 'applied null' ? [true, true, false, true] : [false, false, false, false],
      )
      // Nothing it needs for its own work is refused.
      expect(running.lines().filter((line) => /forbidden/i.test(JSON.stringify(line)))).toEqual([])
    } finally {
      await running.kill()
      for (const { apiVersion, kind } of workload) await kube.delete({ apiVersion, kind, ...meta }).catch(() => undefined)
    }
  },
  120_000,
)
