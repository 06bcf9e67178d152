import { createClient } from '@brokkr/contract/client.ts'
import { hashPak } from '@brokkr/contract/pak.ts'
import { openKube } from '@brokkr/kube/client.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { makeAgent, startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { forEveryAwait } from '@brokkr/testing/crash.ts'
import { cluster, type TestCluster } from '@brokkr/testing/kube.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { keyJudge } from './key-judge.ts'
import { keyStore, pickKey, renewKey } from './own-key.ts'
import type { RenewInput } from './test-parts/renew-key.ts'

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

const judgeOf = (agentId: string) => keyJudge(createClient({ baseUrl: broker.url }), () => agentId as never, signal)

/** An agent whose key lies in its own Secret, as after joining. */
async function joined() {
  const { agent, pak } = await makeAgent(broker, { generators: [] })
  const namespace = await at.namespace('key')
  const store = keyStore({ kube }, namespace, signal)
  await store.save({ pak, next: null, sinceMs: Date.now() })
  return { agent, pak, namespace, store, judge: judgeOf(agent.id) }
}

test('[A54] a renewal killed at any await leaves a key that signs in, and exactly one that is valid', async () => {
  const seen = new Map<string, Awaited<ReturnType<typeof joined>>>()
  const { points, kills } = await forEveryAwait<RenewInput>(
    new URL('./test-parts/renew-key.ts', import.meta.url),
    async () => {
      const made = await joined()
      seen.set(made.namespace, made)
      return { brokerUrl: broker.url, agentId: made.agent.id, kubeconfigPath: at.kubeconfigPath, namespace: made.namespace }
    },
    async (_n, _outcome, { namespace }) => {
      const { pak: old, store, judge } = seen.get(namespace)!
      const kept = (await store.read())!
      const candidates = [...new Set([old, kept.pak, ...(kept.next === null ? [] : [kept.next])])]
      const valid = await Promise.all(candidates.map((pak) => judge.isValid(pak)))
      expect(valid.filter(Boolean).length).toBe(1)
      // The next start, and the renewal that it finishes.
      const picked = await pickKey({ store, judge, now: Date.now }, kept)
      expect(await judge.isValid(picked.pak)).toBe(true)
      const renewed = await renewKey({ store, judge, now: Date.now }, picked)
      expect(renewed).not.toBeNull()
      expect([await judge.isValid(renewed!.pak), await judge.isValid(old), (await store.read())?.next]).toEqual([true, false, null])
    },
    { pick: size('A54.seededAwaits') },
  )
  expect(points.length).toBeGreaterThanOrEqual(8)
  expect(kills).toBe(points.length)
}, 1_800_000)

test('a running agent renews the key it keeps, and goes on under the new one', async () => {
  const { agent, pak, namespace, store, judge } = await joined()
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
    expect(await judge.isValid(pak)).toBe(false)
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
