// A whole agent between a real broker and a real API server: away for long, with the API server away, and with something to hide.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { type AuditedCluster, auditedCluster } from '@brokkr/testing/servers/audited-cluster.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { collectDiagnostics } from '../diagnostics/collect.ts'
import { type LiveWorld, liveWorld } from '../test-parts/live-world.ts'

let at: AuditedCluster
let world: LiveWorld
beforeAll(async () => {
  at = await auditedCluster()
  return () => at.stop()
}, 180_000)
beforeEach(async () => {
  world = await liveWorld(at, {
    BROKKR__LOG__LEVEL: 'trace',
    BROKKR__AGENT__DEPLOYMENT_HEALTH_INTERVAL: '1',
    BROKKR__AGENT__WEBHOOK_INTERVAL: '0.5',
    BROKKR__AGENT__WEBHOOK_ALLOWED_CIDRS: '127.0.0.2/32',
  })
}, 120_000)
afterEach(() => world.stop())

const soon = (what: string, probe: () => Promise<unknown>) => waitFor(what, probe, { limitMs: 120_000, onTimeout: () => world.explain() })
const events = (type: string) =>
  world.broker.admin
    .listEvents({ params: { id: world.agent.agent.id }, query: { limit: 200 } })
    .then((all) => all.filter(({ event_type }) => event_type === type))
/** Without triggers: nothing has changed but the time that went by. */
const aging = (table: string, column: string) =>
  `set session_replication_role = replica; update ${table} set ${column} = ${column} - interval '7 days' where ${column} is not null`

test('[A7] a stack deleted while the agent was offline is removed and confirmed later', async () => {
  const [gone, kept] = await world.deploy(2)
  await world.running.kill()
  await world.tenant.client.deleteStack({ params: { id: gone?.id as never } })
  for (const [table, column] of [
    ['stacks', 'deleted_at'],
    ['agent_stack_status', 'observed_at'],
    ['agent_liveness', 'last_seen_at'],
    ['change_log', 'created_at'],
    ['feed_marks', 'taken_at'],
  ])
    await runSql(world.broker.databaseUrl, aging(table ?? '', column ?? ''))
  const since = await at.mark()
  world.running = await world.start()
  await soon('the object of the deleted stack to go', async () => (await world.read(gone?.name ?? '')) === null)
  const deleted = (await world.deletes(since)).filter(({ resource }) => resource === 'configmaps')
  expect(deleted.map(({ name }) => name)).toEqual([gone?.name])
  await soon('the confirmation', async () => (await events('DELETED')).length === 1)
  expect(await world.read(kept?.name ?? '')).not.toBeNull()
}, 240_000)

/** Accepts connections and reads requests, and never answers. */
async function startHungReceiver() {
  const sockets = new Map<string, Socket>()
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', (data) => void sockets.set(/^POST (\S+)/.exec(data.toString())?.[1] ?? '', socket))
  })
  server.listen(0, '127.0.0.2')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets.values()) socket.destroy()
    server.close()
  })
  return { url: `http://127.0.0.2:${(server.address() as AddressInfo).port}`, sockets }
}

test('[A44] a hung webhook receiver does not delay reconciliation, and its delivery ends with the time limit', async () => {
  const { url, sockets } = await startHungReceiver()
  const subscribe = async (path: string, timeout_seconds: number) => {
    const body = { name: unique('hung'), url: url + path, event_types: ['stack.created'], target_labels: [world.label] }
    const { id } = await world.broker.admin.createWebhook({ body: { ...body, timeout_seconds, max_retries: 2 } })
    return async () => (await world.broker.admin.listDeliveries({ params: { id } }))[0]
  }
  const readLong = await subscribe('/long', 300)
  const readShort = await subscribe('/short', 1)
  await world.stack()
  await soon('both deliveries', async () => sockets.has('/long') && sockets.has('/short'))
  // Failed, tried again, and failed for good, while the other one hangs.
  await soon('the end of the short delivery', async () => (await readShort())?.status === 'dead')
  expect(await readShort()).toMatchObject({ attempts: 2, last_error: expect.stringMatching(/time|within/i) })
  const [deployed] = await world.deploy(1, 'meanwhile')
  await world.submit(deployed?.id as never, world.configMap('meanwhile-0', { n: 'changed' }))
  await world.reported(deployed?.id as never, 'applied', 2)
  expect((await world.read('meanwhile-0'))?.data).toEqual({ n: 'changed' })
  expect([sockets.get('/long')?.destroyed, (await readLong())?.status]).toEqual([false, 'acquired'])
}, 240_000)

test('[A28] an unreachable API server shows in readiness and causes no failure events', async () => {
  const stacks = await world.deploy(5)
  await at.kill('kube-apiserver')
  const downMs = performance.now()
  const ready = async () => (await fetch(`${world.running.healthUrl}/readyz`)).status
  for (const { id, name } of stacks) await world.submit(id, world.configMap(name, { n: 'later' }))
  await soon('readiness to be lost', async () => (await ready()) === 503)
  const restMs = size('A28.apiServerDownMs') - (performance.now() - downMs)
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, restMs)))
  expect(await ready()).toBe(503)
  await at.start('kube-apiserver')
  for (const { id } of stacks) await world.reported(id, 'applied', 2)
  await soon('readiness', async () => (await ready()) === 200)
  for (const { name } of stacks) expect((await world.read(name))?.data).toEqual({ n: 'later' })
  const failed = await events('FAILED')
  for (const { id } of stacks) {
    const objects = await world.tenant.client.listDeploymentObjects({ params: { id }, query: {} })
    const own = new Set(objects.map((object) => object.id))
    expect(failed.filter(({ deployment_object_id }) => own.has(deployment_object_id)).length).toBeLessThanOrEqual(1)
  }
}, 600_000)

test('[A46] a Secret value appears only in its Secret and in the parent of its stack', async () => {
  const canary = 'canary-4f1d9c27'
  const number = 4_091_927_314_159
  const forms = [canary, String(number), Buffer.from(canary).toString('base64'), Buffer.from(canary).toString('hex')] as const
  const hides = (what: string, text: string) => expect([what, forms.filter((form) => text.includes(form))]).toEqual([what, []])
  const secret = (data: object) => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'hidden', namespace: world.namespace }, ...data })
  const path = `/api/v1/namespaces/${world.namespace}/secrets/hidden`
  const { id } = await world.stack()
  const web = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace: world.namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: 'web' } },
      template: {
        metadata: { labels: { app: 'web' } },
        spec: { containers: [{ name: 'main', image: 'example.invalid/web:1', env: [{ name: 'KEY', value: 'none' }] }] },
      },
    },
  }
  // Applied.
  await world.submit(id, secret({ stringData: { key: canary } }), web)
  await world.reported(id, 'applied', 1)
  expect(((await at.api('GET', path)).json as { data: { key: string } }).data.key).toBe(forms[2])
  // Drifted, and healed.
  await at.api('PATCH', path, { body: { data: { key: 'b3RoZXI=' } }, contentType: 'application/merge-patch+json' })
  await soon('the drift', async () => (await events('DRIFT')).length >= 1)
  await soon('the healed Secret', async () => ((await at.api('GET', path)).json as { data: { key: string } }).data.key === forms[2])
  // Refused in words that quote it.
  await world.submit(id, secret({ stringData: { key: number } }), web)
  await world.reported(id, 'failed', 2)
  await world.submit(id, secret({ data: { key: `${canary}!` } }), web)
  await world.reported(id, 'failed', 3)
  await world.submit(id, secret({ stringData: { key: canary }, immutable: true }), web)
  await world.reported(id, 'applied', 4)
  await world.submit(id, secret({ stringData: { key: `${canary}-changed` }, immutable: true }), web)
  await world.reported(id, 'failed', 5)
  // Looked at for health, and by a diagnosis.
  const objects = await world.tenant.client.listDeploymentObjects({ params: { id }, query: {} })
  const object = objects.find(({ sequence_id }) => sequence_id === 4)
  const health = () => world.broker.admin.getStackHealth({ params: { id } })
  await soon('the health', async () => (await health()).deployment_objects.length > 0)
  const diagnosis = JSON.stringify(await diagnose(id, object?.id ?? ''))

  hides('the log of the agent', world.running.text())
  hides('its metrics', await (await fetch(`${world.running.healthUrl}/metrics`)).text())
  hides('its health page', await (await fetch(`${world.running.healthUrl}/health`)).text())
  hides('the log of the broker', world.broker.text())
  for (const type of ['APPLIED', 'UPDATED', 'FAILED', 'DRIFT', 'HEALTH_CHECK']) hides(type, JSON.stringify(await events(type)))
  expect((await events('FAILED')).length).toBeGreaterThanOrEqual(3)
  hides('the status', JSON.stringify(await world.tenant.client.getStackStatus({ params: { id } })))
  hides('the health', JSON.stringify(await health()))
  hides('the diagnosis', diagnosis)
  const holders = (await everythingIn(at)).filter(({ text }) => forms.some((form) => text.includes(form))).map(({ name }) => name)
  expect(holders.toSorted()).toEqual([`Secret ${world.namespace}/hidden`, `Secret ${world.own}/brokkr-stack-${id}`].toSorted())
}, 300_000)

/** What the agent collects when somebody asks it to look closely at this revision. */
async function diagnose(stackId: string, objectId: string): Promise<object> {
  const kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  try {
    const place = { group: '', kind: 'Secret', namespace: world.namespace, name: 'hidden' }
    const members = [place, { group: 'apps', kind: 'Deployment', namespace: world.namespace, name: 'web' }]
    const policy = { allowedNamespaces: [], watchNamespace: null, protectedNamespaces: [world.own], deniedKinds: [] }
    const deps = { kube, agentId: world.agent.agent.id, policy }
    return await collectDiagnostics(deps, { stackId, objectId, members }, AbortSignal.timeout(60_000))
  } finally {
    await kube.close()
  }
}

/** Every object of every kind, with what is compressed in it laid open. */
async function everythingIn(plane: AuditedCluster): Promise<{ name: string; text: string }[]> {
  const found: { name: string; text: string }[] = []
  const groups = (await plane.api<{ groups: { preferredVersion: { groupVersion: string } }[] }>('GET', '/apis')).json.groups
  for (const root of ['/api/v1', ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)]) {
    const { json } = await plane.api<{ resources: { name: string; kind: string; verbs: string[] }[] }>('GET', root)
    for (const { name, kind } of json.resources.filter((each) => !each.name.includes('/') && each.verbs.includes('list'))) {
      const { json: list } = await plane.api<{
        items?: { metadata: { namespace?: string; name: string }; data?: Record<string, string> }[]
      }>('GET', `${root}/${name}`)
      for (const item of list.items ?? [])
        found.push({
          name: `${kind} ${item.metadata.namespace ?? ''}/${item.metadata.name}`,
          text: JSON.stringify(item) + opened(item.data),
        })
    }
  }
  return found
}

const opened = (data: Record<string, string> = {}): string =>
  Object.entries(data)
    .filter(([key]) => key.endsWith('.gz'))
    .map(([, value]) => gunzipSync(Buffer.from(value, 'base64')).toString('utf8'))
    .join('\n')
