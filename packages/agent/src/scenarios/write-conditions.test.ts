// How a whole agent stands without its broker, without a valid key, without the word ACTIVE, and without the Lease: what it writes
// to a real API server, as that server wrote it down.
import { readFile, writeFile } from 'node:fs/promises'
import type { StackId } from '@brokkr/contract/wire.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { type AuditedCluster, type AuditedRequest, auditedCluster, isWrite } from '@brokkr/testing/servers/audited-cluster.ts'
import { tierOfRun } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type LiveWorld, liveWorld, quick } from '../test-parts/live-world.ts'

let at: AuditedCluster
let world: LiveWorld
const frozenAfter = tierOfRun() === 'proof' ? '300' : '1.5'
beforeAll(async () => {
  at = await auditedCluster()
  return () => at.stop()
}, 180_000)
beforeEach(async () => {
  world = await liveWorld(at, { BROKKR__AGENT__FROZEN_AFTER_SECONDS: frozenAfter, BROKKR__AGENT__REFUSED_RETRY_SECONDS: '1' })
}, 120_000)
afterEach(() => world.stop())

const ready = async () => {
  const answered = await fetch(`${world.running.healthUrl}/readyz`)
  return `${answered.status} ${await answered.text()}`
}
const remove = (name: string) => at.api('DELETE', `/api/v1/namespaces/${world.namespace}/configmaps/${name}`)
const isThere = async (name: string, value: string) => (await world.read(name))?.data?.['v'] === value
const soon = (what: string, probe: () => Promise<boolean>) => waitFor(what, probe, { limitMs: 90_000, onTimeout: world.explain })
/** Looks of the agent at everything it has; after a few of them nothing more is to be expected. */
const looks = async () => {
  const text = await (await fetch(`${world.running.healthUrl}/metrics`)).text()
  return Number(/^brokkr_agent_heartbeat_sent_total (\d+)/m.exec(text)?.[1] ?? 0)
}
const changes = (requests: readonly AuditedRequest[]) =>
  requests
    .filter(({ namespace, name }) => !(namespace === world.own && name === 'brokkr-agent-state'))
    .map(({ verb, name }) => `${verb} ${name}`)

async function deployOne(value: string, sequence: number, id?: StackId): Promise<StackId> {
  const stackId = id ?? (await world.stack()).id
  await world.submit(stackId, world.configMap('one', { v: value }))
  if (sequence > 0) await world.reported(stackId, 'applied', sequence)
  return stackId
}

test('[A32] an agent that starts without the broker heals from the stored manifest', async () => {
  await deployOne('kept', 1)
  await world.running.kill()
  world.proxy.break({ do: 'reset' })
  await world.broker.kill()
  await remove('one')
  world.running = await world.start()
  await soon('what was deleted before the start', () => isThere('one', 'kept'))
  const { uid } = (await world.read('one'))!.metadata
  await remove('one')
  await soon('what was deleted while the broker is away', async () => {
    const found = await world.read('one')
    return found !== null && found.metadata.uid !== uid && found.data?.['v'] === 'kept'
  })
  expect(await ready()).toBe('200 Ready')
}, 200_000)

test('[A33] a revoked PAK freezes writes, and a new PAK file resumes them without a restart', async () => {
  const stackId = await deployOne('first', 1)
  const { pak } = await world.broker.admin.rotateAgentPak({ params: { id: world.agent.agent.id }, body: {} })
  await soon('the freeze', async () => (await ready()).startsWith('503 frozen'))
  const since = await at.mark()
  await remove('one')
  await deployOne('second', 0, stackId)
  // The resync of every three seconds looks at everything, twice.
  const streams = () => world.proxy.requests.filter(({ path }) => path.endsWith('/heartbeat')).length
  const before = streams()
  await waitFor('a dozen refused heartbeats', () => streams() >= before + 12, { limitMs: 60_000 })
  expect(changes(await world.writes(since))).toEqual([])
  expect(await world.read('one')).toBeNull()
  const { pid } = world.running
  await writeFile(world.running.pakFile, pak!)
  await soon('the revision that was missed', () => isThere('one', 'second'))
  await world.reported(stackId, 'applied', 2)
  expect([await ready(), world.running.pid]).toEqual(['200 Ready', pid])
}, 900_000)

test('[A34] an agent that is not ACTIVE writes nothing, and ACTIVE applies missed changes', async () => {
  const stackId = await deployOne('first', 1)
  const { id } = world.agent.agent
  await world.broker.admin.updateAgent({ params: { id }, body: { status: 'INACTIVE' } })
  await world.reported(stackId, 'held')
  expect((await world.status(stackId))?.code).toBe('paused')
  const since = await at.mark()
  await remove('one')
  await deployOne('second', 0, stackId)
  const before = await looks()
  await waitFor('a dozen heartbeats', async () => (await looks()) >= before + 12, { limitMs: 60_000 })
  expect(changes(await world.writes(since))).toEqual([])
  await world.broker.admin.updateAgent({ params: { id }, body: { status: 'ACTIVE' } })
  await soon('the revision that was missed', () => isThere('one', 'second'))
  await world.reported(stackId, 'applied', 2)
}, 300_000)

test('an observing agent reports its stacks as held and writes nothing', async () => {
  const stackId = await deployOne('first', 1)
  expect(await world.running.stop()).toBe(0)
  const since = await at.mark()
  world.running = await world.start({ BROKKR__AGENT__PRESET: 'observe' })
  await remove('one')
  await deployOne('second', 0, stackId)
  await world.reported(stackId, 'held', 2)
  expect((await world.status(stackId))?.code).toBe('observe')
  const before = await looks()
  await waitFor('a dozen heartbeats', async () => (await looks()) >= before + 12, { limitMs: 60_000 })
  expect(changes(await world.writes(since))).toEqual([])
}, 300_000)

test('[A49] only the Lease holder of two processes writes, also after a process pause', async () => {
  const stackId = await deployOne('first', 1)
  const kubeconfigPath = `${world.running.folder}/second.kubeconfig`
  // The second one acts as somebody else, so that the audit log tells them apart.
  const text = await readFile(at.kubeconfigPath, 'utf8')
  await writeFile(kubeconfigPath, secondUser(text))
  const second = await startTestAgent({
    broker: world.proxy.url,
    agent: world.agent,
    kubeconfigPath,
    namespace: world.own,
    env: quick,
    until: 'standby',
  })
  try {
    const bySecond = async () => (await at.writes()).filter((request) => isWrite(request) && request.impersonated !== null)
    await deployOne('second', 2, stackId)
    expect(await bySecond()).toEqual([])
    expect((await fetch(`${second.healthUrl}/readyz`)).status).toBe(503)
    // The holder falls asleep in the middle of its work, longer than the Lease lasts.
    process.kill(world.running.pid, 'SIGSTOP')
    const since = await at.mark()
    await waitFor('the second one at work', () => second.lines().find((line) => line['msg'] === 'agent ready'), { limitMs: 60_000 })
    await deployOne('third', 3, stackId)
    expect((await bySecond()).length).toBeGreaterThan(0)
    process.kill(world.running.pid, 'SIGCONT')
    expect((await world.running.exited).code).toBe(1)
    const byFirst = (await at.writes({ since })).filter((request) => isWrite(request) && request.impersonated === null)
    expect(changes(byFirst)).toEqual([])
    await deployOne('fourth', 4, stackId)
  } finally {
    await second.kill()
  }
}, 300_000)

/** The same user, who says of itself that it is another. */
const secondUser = (text: string): string => {
  const found = /^( *)token: .*$/m.exec(text)
  if (found === null) throw new Error('the kubeconfig holds no token')
  const [line, indent] = [found[0], found[1]!]
  return text.replace(line, `${line}\n${indent}as: second-agent\n${indent}as-groups: [system:masters]`)
}
