// A canary in the manifests of a whole product: applied, changed by hand, refused by the API server, removed. Afterwards it is in the
// Secrets it was meant for and nowhere else. The search first finds what was planted in each place. Ways into the broker alone:
// broker-secrets.test.ts. Whoever adds a way in (a webhook's address, a template's parameter) adds it there or here.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { dumpOf, filesBelow, placesWith } from './search-secret.ts'

const canary = `S3CR3T-${randomUUID()}`
const planted = `planted-${randomUUID()}`
const label = unique('l')

let at: TestCluster
let broker: TestBroker
let tenant: TestGenerator
let agent: TestAgent
let running: AgentProcess
let namespace: string
let own: string
beforeAll(async () => {
  at = await cluster()
  ;[namespace, own] = [await at.namespace('canary'), await at.namespace(planted)]
  // The log of the broker names the file of its first key, that of the agent its namespace.
  const folder = await mkdtemp(join(tmpdir(), planted))
  const keyFile = join(folder, 'key.txt')
  const env = { BROKKR__LOG__LEVEL: 'trace', BROKKR__BROKER__PAK_HASH: '', BROKKR__BROKER__ADMIN_PAK_FILE: keyFile }
  const started = await startTestBroker({ env })
  const adminPak = (await readFile(keyFile, 'utf8')).trim()
  broker = { ...started, adminPak, admin: started.clientOf(adminPak) }
  tenant = await createGenerator(broker)
  agent = await createAgent(broker, { name: planted, labels: [label], generators: [tenant] })
  running = await startTestAgent({ broker, agent, kubeconfigPath: at.kubeconfigPath, namespace: own, env: { BROKKR__LOG__LEVEL: 'trace' } })
  return () => Promise.all([running.kill(), broker.kill(), rm(folder, { recursive: true })])
})

const coded = Buffer.from(canary).toString('base64')
const secret = (more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 's', namespace },
  data: { password: coded },
  ...more,
})
const map = () => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'm', namespace }, data: { planted } })
const makeStack = () => tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels: [label] } })
const submit = (id: string, ...documents: object[]) =>
  tenant.client.createDeploymentObject({
    params: { id },
    body: { yaml_content: documents.map((one) => JSON.stringify(one)).join('\n---\n') },
  })
const secretPath = () => `/api/v1/namespaces/${namespace}/secrets/s`
const read = async () => (await at.api<{ data?: Record<string, string> }>('GET', secretPath())).json.data
const soon = (what: string, probe: () => Promise<boolean>) => waitFor(what, probe, { onTimeout: () => running.logTail(20) })
const reported = (stackId: string, phase: string, sequence: number) =>
  soon(`${phase} ${sequence}`, async () => {
    const [status] = (await tenant.client.getStackStatus({ params: { id: stackId } })).agents
    return status?.phase === phase && status.sequence_id === sequence
  })

/** Every object of both namespaces that is no Secret, whatever the API server serves there. */
async function objectsButSecrets(): Promise<[string, string][]> {
  type Resources = { resources: { name: string; namespaced: boolean; verbs: string[] }[] }
  const groups = (await at.api<{ groups: { preferredVersion: { groupVersion: string } }[] }>('GET', '/apis')).json.groups
  const found: [string, string][] = []
  for (const root of ['/api/v1', ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)]) {
    const { resources } = (await at.api<Resources>('GET', root)).json
    for (const { name } of resources.filter((one) => one.namespaced && one.verbs.includes('list') && one.name !== 'secrets'))
      for (const where of [namespace, own])
        found.push([`${where} ${root} ${name}`, JSON.stringify((await at.api('GET', `${root}/namespaces/${where}/${name}`)).json)])
  }
  return found
}

async function answersTo(pak: string, paths: readonly string[]): Promise<[string, string][]> {
  const ask = async (path: string): Promise<[string, string]> => [
    path,
    await (await fetch(`${broker.url}${path}`, { headers: { authorization: `Bearer ${pak}` } })).text(),
  ]
  return Promise.all(paths.map(ask))
}

test('[X3] a secret of a manifest is in plain text only in the Secrets of the cluster', async () => {
  const [good, bad] = [await makeStack(), await makeStack()]
  const object = await submit(good.id, secret(), map())
  await reported(good.id, 'applied', 1)
  expect((await read())?.['password']).toBe(coded)
  // Changed by hand and healed: whoever compares the two has both values before them.
  const patch = {
    body: { data: { password: Buffer.from(`${canary}-other`).toString('base64') } },
    contentType: 'application/merge-patch+json',
  }
  expect((await at.api('PATCH', secretPath(), patch)).status).toBe(200)
  await soon('the drift to be healed', async () => (await read())?.['password'] === coded)
  // Refused by the API server, whose answer repeats what it refuses; and by the agent before it asks.
  await submit(bad.id, { ...secret({ type: 'kubernetes.io/tls', data: { 'not a key': coded } }), metadata: { name: 'bad', namespace } })
  await reported(bad.id, 'failed', 1)
  await submit(bad.id, { ...secret({ data: canary }), metadata: { name: 'bad', namespace } })
  await reported(bad.id, 'failed', 2)
  // Another type is another object; then it goes.
  await submit(good.id, secret({ data: { password: coded, more: coded } }), map())
  await reported(good.id, 'applied', 2)
  const objects = await objectsButSecrets()
  await submit(good.id, map())
  await reported(good.id, 'applied', 3)

  const reader = await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })
  const [admin, masked] = [
    ['/api/v1/admin/audit-logs?limit=1000', '/api/v1/agent-events?limit=1000', `/api/v1/stacks/${bad.id}/status`],
    [`/api/v1/stacks/${good.id}/deployment-objects`, `/api/v1/deployment-objects/${object.id}`],
  ]
  const places: Record<string, readonly (readonly [string, string | Buffer])[]> = {
    objects,
    dump: await dumpOf(broker.databaseUrl),
    'log of the broker': [['log', broker.text()]],
    'log of the agent': [['log', running.text()]],
    answers: [...(await answersTo(broker.adminPak, admin)), ...(await answersTo(reader.pak, masked))],
    figures: [
      ['figures of the broker', await (await fetch(`${broker.url}/metrics`)).text()],
      ['figures of the agent', await (await fetch(`${running.healthUrl}/metrics`)).text()],
    ],
    files: [...filesBelow(running.folder), ...filesBelow(broker.folder)],
  }
  for (const [name, place] of Object.entries(places))
    if (name !== 'figures') expect(placesWith([planted], place), `nothing was planted in ${name}`).not.toEqual([])
  for (const [name, place] of Object.entries(places)) expect(placesWith([canary], place), `the secret in ${name}`).toEqual([])
})
