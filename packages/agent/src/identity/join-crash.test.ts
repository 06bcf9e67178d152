// An agent that joins, between a real broker and a real API server, killed where it hurts.
import { createClient } from '@brokkr/contract/client.ts'
import { type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { forEveryAwait } from '@brokkr/testing/crash/crash.ts'
import { type FixedResponse, startBrokerProxy } from '@brokkr/testing/faults/broker-proxy.ts'
import { logLine, type ProgramProcess } from '@brokkr/testing/program.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type JoinInput, joinForm } from '../test-parts/join-once.ts'
import { joiningAgent } from '../test-parts/joining-agent.ts'
import { join } from './join.ts'
import { createPakStore } from './own-pak.ts'
import { createPakProbe } from './pak-probe.ts'

let at: TestCluster
let broker: TestBroker
let kube: Kube
beforeAll(async () => {
  at = await cluster({ controllers: false })
  broker = await startTestBroker()
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  return async () => {
    await kube.close()
    await broker.kill()
  }
})

const map = (name: string, namespace: string, value: string) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data: { value } })

/** A stack that carries the label, with a ConfigMap of its own. */
async function stackOf({ client, generator }: TestGenerator, label: string, namespace: string) {
  const { id } = await client.createStack({ body: { name: unique('s'), generator_id: generator.id, labels: [label] } })
  const name = unique('m')
  const submit = (value: string) => client.createDeploymentObject({ params: { id }, body: { yaml_content: map(name, namespace, value) } })
  await submit('first')
  const found = async () => {
    const object = await kube.find({ apiVersion: 'v1', kind: 'ConfigMap', name, namespace })
    return (object as { data?: { value?: string } } | undefined)?.data?.value ?? null
  }
  return { id, submit, found }
}

test('[A53] an agent killed between creating its PAK and the join response joins once', async () => {
  const [own, namespace, label, name] = [await at.namespace('own'), await at.namespace('a53'), unique('l'), unique('edge')]
  const tenants = [await createGenerator(broker), await createGenerator(broker), await createGenerator(broker)] as const
  const [one, two, third] = [
    await stackOf(tenants[0], label, namespace),
    await stackOf(tenants[1], label, namespace),
    await stackOf(tenants[2], label, namespace),
  ]
  const ids = tenants.map(({ generator }) => generator.id)
  const invite = await broker.admin.createAgentInvite({ body: { name, labels: [label], generator_ids: ids.slice(0, 2) } })
  const proxy = await startBrokerProxy(broker.url)
  const agent = await joiningAgent({
    brokerUrl: proxy.url,
    token: invite.token,
    name,
    kubeconfigPath: at.kubeconfigPath,
    namespace: own,
    env: { BROKKR_GENERATOR_IDS: ids.join(',') },
  })
  const store = createPakStore({ kube }, own)
  const joins = () => proxy.requests.filter(({ path }) => path === '/api/v1/join')
  const kept = () => broker.admin.getAgentInvite({ params: { id: invite.id } })
  const soon = <T>(what: string, running: ProgramProcess, probe: () => Promise<T> | T) =>
    waitFor(what, probe, { limitMs: 60_000, onTimeout: () => running.logTail(20) })
  const texts: string[] = []
  const kill = async (running: ProgramProcess) => {
    await running.kill()
    texts.push(running.text())
  }
  let running: ProgramProcess | null = null
  try {
    // The broker has not heard of it yet.
    proxy.break(({ path }) => (path === '/api/v1/join' ? { do: 'hang' } : { do: 'pass' }))
    running = await agent.start()
    await soon('its first request to join', running, () => joins().length === 1)
    const made = await store.read()
    expect(made).toMatchObject({ pak: expect.stringMatching(/^brokkr_BR/), next: null, sinceMs: null })
    await kill(running)
    expect(await kept()).toMatchObject({ uses_left: 1, agents: [] })

    // The broker has taken it, and nobody tells the agent.
    const heard: FixedResponse[] = []
    proxy.break(({ path }) => (path === '/api/v1/join' ? { do: 'withhold', heard: (answer) => heard.push(answer) } : { do: 'pass' }))
    running = await agent.start()
    await soon('the answer it will not get', running, () => heard.length === 1)
    await kill(running)
    expect(heard[0]?.status).toBe(201)
    expect(await store.read()).toEqual(made)

    proxy.heal()
    running = await agent.start()
    await logLine(running, 'agent ready')
    expect([joins().length, joins()[2]?.status]).toEqual([3, 200])
    expect(await store.read()).toMatchObject({ pak: made?.pak, sinceMs: expect.any(Number) })

    // It joined once: one agent, one use, one line in the audit.
    const after = await kept()
    expect([after.uses_left, after.agents.length]).toEqual([0, 1])
    const found = await broker.admin.listAgents({ query: { name } })
    expect(found.map(({ id, status }) => [id, status])).toEqual([[after.agents[0], 'ACTIVE']])
    expect((await broker.admin.listAuditLogs({ query: { action: 'invite.used', resource_id: invite.id } })).total).toBe(1)

    // Registered with two, beside the generator that every agent has; the third answers 403.
    const params = { id: after.agents[0]! }
    const registered = (await broker.admin.listAgentRegistrations({ params })).map(({ generator_id }) => generator_id)
    expect([registered.length, ids.map((id) => registered.includes(id))]).toEqual([3, [true, true, false]])
    const answers = () =>
      ids.map((id) => proxy.requests.findLast(({ path }) => path === `/api/v1/generators/${id}/register`)?.status ?? null)
    await soon('three answers', running, () => answers().every((status) => status !== null))
    expect(answers()).toEqual([409, 409, 403])
    const health = (await (await fetch(`${agent.healthUrl}/health`)).json()) as { broker: { refused_generators: string[] } }
    expect(health.broker.refused_generators).toEqual([ids[2]])

    // What the third submits before the others does not arrive, though its stack carries the agent's label.
    await third.submit('second')
    await one.submit('second')
    await two.submit('second')
    await soon('the stacks of the two', running, async () => (await one.found()) === 'second' && (await two.found()) === 'second')
    expect(await third.found()).toBeNull()
    const stacks = (await broker.admin.getAssociatedStacks({ params })).map(({ id }) => id)
    expect(stacks.toSorted()).toEqual([one.id, two.id].toSorted())
    expect((await broker.admin.getStackStatus({ params: { id: third.id } })).agents).toEqual([])

    // Joined is joined: the next process shows no token.
    await kill(running)
    running = await agent.start()
    await logLine(running, 'agent ready')
    expect(joins().length).toBe(3)
    texts.push(running.text())
    const secrets = [invite.token.split('_')[2]!, made!.pak.split('_')[2]!]
    for (const text of [...texts, broker.text()]) expect(secrets.filter((secret) => text.includes(secret))).toEqual([])
  } finally {
    await running?.kill()
    await proxy.close()
  }
}, 180_000)

test('[A53] an agent killed at any await of its join joins once', async () => {
  const client = createClient({ baseUrl: broker.url })
  const { points, kills } = await forEveryAwait<JoinInput>(
    new URL('../test-parts/join-once.ts', import.meta.url),
    async () => {
      const name = unique('edge')
      const { id: inviteId, token } = await broker.admin.createAgentInvite({ body: { name } })
      return { brokerUrl: broker.url, inviteId, token, name, kubeconfigPath: at.kubeconfigPath, namespace: await at.namespace('own') }
    },
    async (_n, _outcome, input) => {
      const signal = AbortSignal.timeout(60_000)
      const store = createPakStore({ kube }, input.namespace, signal)
      const probe = createPakProbe(client, () => '' as never, signal)
      const before = await store.read()
      // The next start.
      const kept = await join({ store, probe, broker: { client }, now: Date.now }, joinForm(input), signal)
      expect([kept.pak, await probe.isValid(kept.pak)]).toEqual([before?.pak ?? kept.pak, true])
      const invite = await broker.admin.getAgentInvite({ params: { id: input.inviteId } })
      expect([invite.uses_left, invite.agents.length]).toEqual([0, 1])
    },
  )
  expect(points.length).toBeGreaterThanOrEqual(8)
  expect(kills).toBe(points.length)
}, 600_000)

test('a rejected join token is explained, and a new one in its file works without a restart', async () => {
  const [own, name] = [await at.namespace('own'), unique('edge')]
  const dead = await broker.admin.createAgentInvite({ body: { name } })
  await broker.admin.revokeAgentInvite({ params: { id: dead.id } })
  const agent = await joiningAgent({
    brokerUrl: broker.url,
    token: dead.token,
    name,
    kubeconfigPath: at.kubeconfigPath,
    namespace: own,
    env: { BROKKR__AGENT__REFUSED_RETRY_SECONDS: '0.5' },
  })
  const running = await agent.start()
  try {
    const ready = async () => {
      const answer = await fetch(`${agent.healthUrl}/readyz`).catch(() => null)
      return answer === null ? '' : `${answer.status} ${await answer.text()}`
    }
    await waitFor('the reason', async () => /^503 .*the join token is unknown, used up, revoked or expired/.test(await ready()), {
      limitMs: 60_000,
      onTimeout: () => running.logTail(20),
    })
    expect((await broker.admin.listAgents({ query: { name } })).length).toBe(0)
    await agent.giveToken((await broker.admin.createAgentInvite({ body: { name } })).token)
    await logLine(running, 'agent ready')
    expect((await broker.admin.listAgents({ query: { name } })).length).toBe(1)
  } finally {
    await running.kill()
  }
}, 120_000)
