import { generatePak, hashPak } from '@brokkr/contract/auth/pak.ts'
import { createClient } from '@brokkr/contract/client.ts'
import { type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { forEveryAwait } from '@brokkr/testing/crash/crash.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import type { RenewInput } from '../test-parts/renew-key.ts'
import { choosePak, createPakStore, parsePak, renewPak } from './own-pak.ts'
import { createPakProbe } from './pak-probe.ts'
import { type PakRenewalDeps, pakRenewalLoop } from './pak-renewal-loop.ts'
import { AgentPaks } from './paks.ts'

let at: TestCluster
let broker: TestBroker
let kube: Kube
const signal = new AbortController().signal
beforeAll(async () => {
  at = await cluster({ controllers: false })
  broker = await startTestBroker()
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  return async () => {
    await kube.close()
    await broker.kill()
  }
})

const createProbe = (agentId: string) => createPakProbe(createClient({ baseUrl: broker.url }), () => agentId as never, signal)

/** An agent whose key lies in its own Secret, as after joining. */
async function joined() {
  const { agent, pak } = await createAgent(broker, { generators: [] })
  const namespace = await at.namespace('key')
  const store = createPakStore({ kube }, namespace, signal)
  await store.save({ pak, next: null, sinceMs: Date.now() })
  return { agent, pak, namespace, store, probe: createProbe(agent.id) }
}

test('[A54] a rotation killed at any await leaves one valid PAK that signs in', async () => {
  const seen = new Map<string, Awaited<ReturnType<typeof joined>>>()
  const { points, kills } = await forEveryAwait<RenewInput>(
    new URL('../test-parts/renew-key.ts', import.meta.url),
    async () => {
      const made = await joined()
      seen.set(made.namespace, made)
      return { brokerUrl: broker.url, agentId: made.agent.id, kubeconfigPath: at.kubeconfigPath, namespace: made.namespace }
    },
    async (_n, _outcome, { namespace }) => {
      const { pak: old, store, probe } = seen.get(namespace)!
      const kept = (await store.read())!
      const candidates = [...new Set([old, kept.pak, ...(kept.next === null ? [] : [kept.next])])]
      const valid = await Promise.all(candidates.map((pak) => probe.isValid(pak)))
      expect(valid.filter(Boolean).length).toBe(1)
      // The next start, and the renewal that it finishes.
      const picked = await choosePak({ store, probe, now: Date.now }, kept)
      expect(await probe.isValid(picked.pak)).toBe(true)
      const renewed = await renewPak({ store, probe, now: Date.now }, picked)
      expect(renewed).not.toBeNull()
      expect([await probe.isValid(renewed!.pak), await probe.isValid(old), (await store.read())?.next]).toEqual([true, false, null])
    },
    { pick: size('A54.seededAwaits') },
  )
  expect(points.length).toBeGreaterThanOrEqual(8)
  expect(kills).toBe(points.length)
}, 1_800_000)

test('a running agent rotates its own PAK and continues with the new one', async () => {
  const { agent, pak, namespace, store, probe } = await joined()
  const running = await startTestAgent({
    broker,
    agent: { agent, pak: 'not-used', client: broker.clientOf(pak) },
    kubeconfigPath: at.kubeconfigPath,
    namespace,
    env: {
      BROKKR__AGENT__PAK_FILE: '',
      BROKKR__AGENT__JOIN_TOKEN: 'jt_spent_token',
      // 8.64 seconds.
      BROKKR__AGENT__PAK_ROTATION_DAYS: '0.0001',
      BROKKR__AGENT__POLLING_INTERVAL: '0.5',
    },
  })
  try {
    await waitFor('another key', async () => (await store.read())?.pak !== pak && (await store.read())?.next === null, { limitMs: 90_000 })
    expect(await probe.isValid(pak)).toBe(false)
    // The old key is dead, so a heartbeat that comes now was sent with the new one.
    const since = Date.now()
    await waitFor('a later heartbeat', async () => {
      const { last_heartbeat: last } = await broker.admin.getAgent({ params: { id: agent.id } })
      return last !== null && Date.parse(last) > since + 1_000
    })
    const text = running.text()
    expect([text.includes(pak), text.includes((await store.read())!.pak), await hashPak(pak)].slice(0, 2)).toEqual([false, false])
  } finally {
    await running.kill()
  }
}, 180_000)

/** The loop of a joined agent whose key is due, with faults between it and its Secret or its broker. */
async function renewing(faults: (real: Pick<PakRenewalDeps, 'store' | 'probe'>) => Partial<PakRenewalDeps>) {
  const { pak, store, probe } = await joined()
  const paks = new AgentPaks(null)
  const clock = manualClock()
  paks.setStored({ ...(await store.read())!, sinceMs: clock.now() - 40 * 86_400_000 })
  const loop = pakRenewalLoop({ paks, store, probe, clock, log, days: 30, ...faults({ store, probe }) })
  const run = () => loop.run(signal)
  return { pak, store, probe, paks, clock, loop, run }
}
const away = () => Promise.reject(new Error('away'))

test('an accepted PAK is used although the Secret cannot be written', async () => {
  let isWritable = false
  const { pak, store, probe, paks, loop, run } = await renewing(({ store: real }) => ({
    store: { read: () => (isWritable ? real.read() : away()), save: (key) => (isWritable || key.next !== null ? real.save(key) : away()) },
  }))
  await run()
  expect(paks.current).not.toBe(pak)
  expect([await probe.isValid(paks.current), await probe.isValid(pak)]).toEqual([true, false])
  expect((await store.read())?.next).toBe(paks.current)
  expect(typeof loop.everyMs === 'function' && loop.everyMs()).toBeLessThan(300_000)
  isWritable = true
  await run()
  expect(await store.read()).toMatchObject({ pak: paks.current, next: null })
})

test('the sign-in uses a rotated PAK although the Secret cannot be written', async () => {
  const { pak, store, probe } = await joined()
  const next = (await generatePak()).pak
  await store.save({ pak, next, sinceMs: 0 })
  expect(await probe.rotate(pak, await parsePak(next))).toBe(true)
  const readOnly = { ...store, save: () => Promise.reject(new Error('the Secret cannot be written')) }
  expect(await choosePak({ store: readOnly, probe, now: Date.now }, (await store.read())!)).toMatchObject({ pak: next, next: null })
})

test('an interrupted PAK rotation completes after the old PAK is rejected', async () => {
  let isLost = true
  const { pak, store, probe, paks, clock, loop, run } = await renewing(({ store: real, probe: asked }) => ({
    store: { ...real, read: away },
    probe: { ...asked, rotate: async (old, next) => (await asked.rotate(old, next)) && (isLost ? away() : true) },
  }))
  await run()
  expect([paks.current, loop.isWorthARun()]).toEqual([pak, false])
  await clock.advance(6_000)
  expect([await probe.isValid(pak), loop.isWorthARun()]).toEqual([false, true])
  isLost = false
  await run()
  expect(await probe.isValid(paks.current)).toBe(true)
  expect(await store.read()).toMatchObject({ pak: paks.current, next: null })
})

test('a running agent tries the next PAK as soon as the broker rejects the current one', async () => {
  const { agent, pak, namespace, store, probe } = await joined()
  const { pak: next } = await generatePak()
  await store.save({ pak, next, sinceMs: Date.now() })
  const running = await startTestAgent({
    broker,
    agent: { agent, pak: 'not-used', client: broker.clientOf(pak) },
    kubeconfigPath: at.kubeconfigPath,
    namespace,
    env: { BROKKR__AGENT__PAK_FILE: '', BROKKR__AGENT__JOIN_TOKEN: 'jt_spent_token', BROKKR__AGENT__POLLING_INTERVAL: '0.5' },
  })
  try {
    expect(await probe.rotate(pak, await parsePak(next))).toBe(true)
    // The timer alone would take 30 s.
    await waitFor('the next key to be kept', async () => (await store.read())?.pak === next, { limitMs: 20_000 })
  } finally {
    await running.kill()
  }
}, 120_000)
