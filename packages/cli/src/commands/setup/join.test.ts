// `brokkr join` between a real broker and an API server that checks RBAC. No image is pulled: the agent runs as a process with the
// settings of its Deployment and the token of its Secret.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { type CommandLine, openCommandLine } from '../../test-parts/run-cli.ts'
import { requireSameClock } from './join.ts'

const namespace = 'brokkr-agent'
let plane: PrivateCluster
let broker: TestBroker
let cli: CommandLine
beforeAll(async () => {
  plane = await privateCluster()
  broker = await startTestBroker({ env: { BROKKR__BROKER__AGENT_IMAGE: 'registry.example.com/brokkr@sha256:0123' } })
  cli = await openCommandLine(broker)
  return async () => {
    await broker.kill()
    await plane.stop()
  }
}, 600_000)

const kubeconfig = () => ['--kubeconfig', plane.kubeconfigPath]

/** A kubeconfig with the rights of a service account. */
async function accountKubeconfig(account: string, inNamespace: string): Promise<string> {
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
  const path = `/api/v1/namespaces/${inNamespace}/serviceaccounts/${account}/token`
  const issued = await plane.api<{ status: { token: string } }>('POST', path, { body: request })
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: plane.url, 'certificate-authority-data': Buffer.from(plane.caPem).toString('base64') } }],
    users: [{ name: 'u', user: { token: issued.json.status.token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  return cli.write(`${account}.kubeconfig`, JSON.stringify(config))
}

/** Starts the agent as the kubelet would: with the environment of the Deployment and the mounted Secret. */
async function startJoiningAgent() {
  type Deployment = { spec: { template: { spec: { containers: { env: { name: string; value: string }[] }[] } } } }
  const read = async <T>(path: string) => (await plane.api<T>('GET', path)).json
  const deployments = await read<{ items: Deployment[] }>(`/apis/apps/v1/namespaces/${namespace}/deployments`)
  const [container] = deployments.items[0]!.spec.template.spec.containers
  const secrets = await read<{ items: { data?: Record<string, string> }[] }>(`/api/v1/namespaces/${namespace}/secrets`)
  const token = secrets.items.map(({ data }) => data?.['token']).find((text) => text !== undefined)!
  const tokenFile = join(cli.folder, 'token')
  await writeFile(tokenFile, Buffer.from(token, 'base64'), { mode: 0o600 })
  const env = {
    ...Object.fromEntries(container!.env.filter(({ value }) => value !== undefined).map(({ name, value }) => [name, value])),
    BROKKR__AGENT__JOIN_TOKEN_FILE: tokenFile,
    BROKKR__AGENT__KUBECONFIG_PATH: await accountKubeconfig('brokkr-agent', namespace),
    BROKKR__AGENT__NAMESPACE: namespace,
    BROKKR__AGENT__HEALTH_PORT: String(await freePort()),
    BROKKR__AGENT__LEASE_SECONDS: '2',
  }
  const agent = await startProgram({ name: 'agent', main: 'packages/agent/src/main.ts', env })
  onTestFinished(() => agent.kill())
  return agent
}

test('join installs an agent, waits until it is connected, and its token can be used once', async () => {
  expect(await cli.ok('join', '--name', 'edge-17', ...kubeconfig(), '--dry-run')).toMatch(
    /^would create an invite for edge-17 and install an agent in https:/,
  )
  const joining = cli.start(['join', '--name', 'edge-17', ...kubeconfig(), '-l', 'env:prod', '--wait', '--timeout', '10m'])
  await waitFor('the installation', () => /edge-17: \d+ objects installed in https:/.test(joining.stdout()), { limitMs: 180_000 })
  const agent = await startJoiningAgent()
  expect(await joining.ended).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/edge-17 is connected\n$/) as unknown })
  const [joined] = await broker.admin.listAgents({ query: { name: 'edge-17' } })
  expect(joined).toMatchObject({ cluster_name: 'edge-17', connection_state: 'connected' })
  await agent.kill()

  // The PAK of the agent is lost and the token in its Secret is used up: the agent says what to do.
  await plane.api('DELETE', `/api/v1/namespaces/${namespace}/secrets/brokkr-agent-pak`)
  const second = await startJoiningAgent()
  await waitFor('the refusal in words', () => /used up, revoked or expired.*another invite/.test(second.text()), {
    limitMs: 180_000,
    onTimeout: () => second.logTail(20),
  })
}, 600_000)

test('join names the agent that has the name already', async () => {
  await broker.admin.createAgent({ body: { name: 'taken', cluster_name: 'fra' } })
  const message = await cli.fails(5, 'join', '--name', 'taken', ...kubeconfig())
  for (const part of ['an agent named taken exists already', 'cluster fra', 'brokkr agents remove taken']) expect(message).toContain(part)
}, 600_000)

test('join with a user that may create nothing says so and revokes its invite', async () => {
  await plane.api('POST', '/api/v1/namespaces/default/serviceaccounts', {
    body: { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'small' } },
  })
  const small = await accountKubeconfig('small', 'default')
  const message = await cli.fails(4, 'join', '--name', 'edge-18', '--kubeconfig', small)
  for (const part of ['the cluster refused the installation', 'forbidden', 'may create namespaces, roles and deployments'])
    expect(message).toContain(part)
  const invites = await broker.admin.listAgentInvites({})
  expect(invites.find(({ name }) => name === 'edge-18')?.revoked_at).not.toBeNull()
}, 600_000)

test('join --wait ends when its invite is revoked, and says how to continue', async () => {
  const joining = cli.start(['join', '--name', 'edge-19', ...kubeconfig(), '--wait', '--timeout', '10m'])
  await waitFor('the installation', () => joining.stdout().includes('objects installed'), { limitMs: 180_000 })
  const { id } = (await broker.admin.listAgentInvites({})).find(({ name }) => name === 'edge-19')!
  await broker.admin.revokeAgentInvite({ params: { id } })
  const { code, stderr } = await joining.ended
  expect(code).toBe(5)
  for (const part of ['edge-19 did not join: its join token was revoked', 'brokkr join --name edge-19 --valid 24h'])
    expect(stderr).toContain(part)
}, 600_000)

test('join names a kubeconfig or cluster that cannot be used', async () => {
  expect(await cli.fails(2, 'join', '--name', 'x', '--kubeconfig', join(cli.folder, 'none'))).toContain('the kubeconfig cannot be used')
  expect(await cli.fails(2, 'join', '--name', 'x', ...kubeconfig(), '--context', 'none')).toContain('--context NAME')
}, 600_000)

const now = 1_000_000_000
test.each([
  ['equal clocks', { clusterMs: now, brokerMs: now, askedMs: now }, null],
  ['a minute apart', { clusterMs: now + 60_000, brokerMs: now, askedMs: now }, null],
  ['ahead', { clusterMs: now + 95_000, brokerMs: now, askedMs: now }, '95 s ahead of'],
  ['behind', { clusterMs: now - 3_600_000, brokerMs: now, askedMs: now }, '3600 s behind'],
  ['a slow answer', { clusterMs: now, brokerMs: now - 90_000, askedMs: now - 90_000 }, null],
])('the clocks of cluster and broker are compared: %s', (_, given, message) => {
  const check = () => requireSameClock(given, now)
  if (message === null) expect(check).not.toThrow()
  else expect(check).toThrow(message)
})
