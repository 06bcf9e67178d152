// A credential that was rotated, revoked, demoted or has expired: what it holds open in any process ends.
// long: several brokers per case
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { type ProxiedPostgres, proxiedPostgres } from '@brokkr/testing/faults/postgres-proxy.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { openRaw } from '../server/raw-http.fixture.ts'

let db: TestDatabase
let near: TestBroker
/** Its feed has a link of its own, which can be cut while its requests reach the database. */
let far: TestBroker
let link: ProxiedPostgres
let tenant: TestGenerator
beforeAll(async () => {
  db = await database()
  link = await proxiedPostgres(db.url)
  near = await startTestBroker({ databaseUrl: db.url })
  far = await near.sibling({ BROKKR__FEED__LISTEN_URL: link.url, BROKKR__FEED__STALE_SECONDS: '2,60', BROKKR__FEED__PING_SECONDS: '0.2' })
  tenant = await createGenerator(near)
  return async () => {
    await Promise.all([near.kill(), far.kill()])
    await link.proxy.close()
  }
})

const statusOf = async (broker: TestBroker, pak: string): Promise<number> =>
  (await fetch(`${broker.url}/api/v1/auth/pak`, { method: 'POST', headers: { authorization: `Bearer ${pak}` } })).status
const dead = (broker: TestBroker, pak: string) => waitFor('the key is refused', async () => (await statusOf(broker, pak)) === 401)
/** As a process does that commits and then is cut off before it could wake anybody; `wake` is what it would have sent. */
const replaceKey = async ({ agent }: TestAgent, { wake }: { wake: boolean }) => {
  const client = await db.connect()
  await client.query('update agents set pak_hash = md5(random()::text) where id = $1', [agent.id])
  if (wake) await client.query("select pg_notify('brokkr_feed_public', '')")
  await client.end()
}
const openWatch = async (broker: TestBroker, pak: string) => {
  const response = await fetch(`${broker.url}/api/v1/watch?scope=kind:stack`, { headers: { authorization: `Bearer ${pak}` } })
  const ended = response.text().catch(() => 'cut')
  return { status: response.status, ended }
}

test('[X20] a changed admin PAK loses its rights and watches in every process', async () => {
  const { pak, id } = await near.admin.createAdminPak({ body: { name: unique('k') } })
  const brokers = [near, far]
  for (const broker of brokers) expect(await statusOf(broker, pak)).toBe(200)
  const watches = await Promise.all(brokers.map((broker) => openWatch(broker, pak)))
  const others = await Promise.all(brokers.map((broker) => openWatch(broker, near.adminPak)))
  const rotated = await near.admin.rotateAdminPak({ params: { id } })
  for (const { ended } of watches) expect(await ended).toMatch(/event: bye\n.*data: .*"reason":"revoked"/s)
  for (const broker of brokers) await dead(broker, pak)

  // Demoted: the key lives, and what it may no longer do is refused.
  const client = await db.connect()
  const headers = { authorization: `Bearer ${rotated.pak}` }
  const statuses = () =>
    Promise.all(brokers.map(async ({ url }) => (await fetch(`${url}/api/v1/generators`, { method: 'POST', headers })).status))
  expect(await statuses()).toEqual([400, 400])
  await client.query('update admin_role set readonly = true where id = $1', [id])
  await waitFor('demoted everywhere', async () => (await statuses()).every((status) => status === 403))
  await client.end()

  await near.admin.revokeAdminPak({ params: { id } })
  for (const broker of brokers) await dead(broker, rotated.pak)

  const short = await near.admin.createAdminPak({ body: { name: unique('k'), expires_at: new Date(Date.now() + 2000).toISOString() } })
  const expiring = await Promise.all(brokers.map((broker) => openWatch(broker, short.pak)))
  for (const { ended } of expiring) expect(await ended).toContain('"reason":"revoked"')
  for (const broker of brokers) await dead(broker, short.pak)

  // Nobody else was touched.
  const stillOpen = Symbol('open')
  for (const { ended } of others) expect(await Promise.race([ended, Promise.resolve(stillOpen)])).toBe(stillOpen)
})

test('[X20] an upload whose PAK is revoked meanwhile is refused', async () => {
  const { pak, id } = await near.admin.createAdminPak({ body: { name: unique('k') } })
  const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id } })
  const raw = await openRaw(Number(new URL(far.url).port))
  const head = `POST /api/v1/stacks/${stack.id}/deployment-objects HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${pak}\r\n`
  raw.send(`${head}Content-Type: application/yaml\r\nContent-Length: 500000\r\n\r\na: 1\n`)
  // Accepted and waiting for the rest: only then is there something to end.
  const metric = `${far.url}/metrics`
  await waitFor('the call was accepted', async () =>
    /brokkr_auth_total\{result="accepted",kind="admin"\} \d/.test(await (await fetch(metric)).text()),
  )
  await near.admin.revokeAdminPak({ params: { id } })
  expect(await raw.until(/\r\n\r\n/)).toContain('HTTP/1.1 401')
  raw.socket.destroy()
  expect(await tenant.client.listDeploymentObjects({ params: { id: stack.id } })).toEqual([])
})

test('[S42] a changed PAK closes its streams in every process, and no other stream', async () => {
  const ways: ((agent: TestAgent) => Promise<unknown>)[] = [
    (agent) => replaceKey(agent, { wake: true }),
    (agent) => replaceKey(agent, { wake: false }),
    ({ agent }) => near.admin.rotateAgentPak({ params: { id: agent.id } }),
    ({ agent }) => near.admin.deleteAgent({ params: { id: agent.id } }),
  ]
  for (const kill of ways) {
    const label = unique('l')
    const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels: [label] } })
    const agent = await createAgent(near, { labels: [label], generators: [tenant] })
    const other = await createAgent(near, { labels: [label], generators: [tenant] })
    const follow = ({ url }: TestBroker, who: TestAgent) => readStream(url, { agentId: who.agent.id, pak: who.pak })
    const streams = await Promise.all([near, far].map((broker) => follow(broker, agent)))
    const bystanders = await Promise.all([near, far].map((broker) => follow(broker, other)))
    for (const stream of [...streams, ...bystanders]) await stream.frame('snapshot_end')
    await kill(agent)
    for (const stream of streams) {
      expect(await stream.frame('bye')).toMatchObject({ reason: 'revoked' })
      await stream.ended
      expect(stream.frames.some((frame) => frame.type === 'del')).toBe(false)
    }
    for (const broker of [near, far]) await dead(broker, agent.pak)
    // The others follow on, and nothing was taken from anybody.
    const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: {b: 1}' } })
    for (const stream of bystanders) {
      await stream.frame('put', (frame) => frame.object?.id === object.id)
      expect(stream.frames.some((frame) => frame.type === 'del' || frame.type === 'bye')).toBe(false)
      stream.close()
    }
  }
})

test('[S42] [X20] a broker with a stale feed checks every call by SQL and sends no frame', async () => {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels: [label] } })
  const agent = await createAgent(near, { labels: [label], generators: [tenant] })
  const stream = await readStream(far.url, { agentId: agent.agent.id, pak: agent.pak })
  await stream.frame('snapshot_end')
  expect(await statusOf(far, agent.pak)).toBe(200)
  link.proxy.cut()
  await replaceKey(agent, { wake: true })
  await dead(far, agent.pak)
  await stream.frame('ping', (frame) => frame.stale)
  const { id } = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: {b: 1}' } })
  // A change that everybody else has seen.
  const seen = await createAgent(near, { labels: [label], generators: [tenant] })
  const elsewhere = await readStream(near.url, { agentId: seen.agent.id, pak: seen.pak })
  await elsewhere.frame('put', (frame) => frame.object?.id === id)
  elsewhere.close()
  expect(stream.frames.filter((frame) => frame.type === 'put' && frame.object?.id === id)).toEqual([])
  link.proxy.heal()
  expect(await stream.frame('bye')).toMatchObject({ reason: 'revoked' })
  expect(stream.frames.some((frame) => frame.type === 'del' || (frame.type === 'put' && frame.object?.id === id))).toBe(false)
})
