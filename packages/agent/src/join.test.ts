import { openKube } from '@brokkr/kube/client.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { cluster, type TestCluster } from '@brokkr/testing/kube.ts'
import { beforeAll, expect, test } from 'vitest'
import { join } from './join.ts'
import { keyStore } from './own-key.ts'
import { json, scriptedBroker } from './test-parts/scripted-broker.ts'

let at: TestCluster
let kube: Kube
const signal = new AbortController().signal
beforeAll(async () => {
  at = await cluster({ controllers: false })
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  return () => kube.close()
})
const form = { token: 'jt_short_canary', name: 'edge', clusterName: 'berlin', clusterUid: 'u', agentVersion: '1', k8sVersion: 'v1' }

test('an agent without a key makes one, keeps it first, and tells the broker its hash under the token, never the key', async () => {
  const server = await scriptedBroker((_request, response) => json(response, 201, { agent: { id: 'a' } }))
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  const kept = await join({ store, broker: await server.connect(), now: () => 1_000 }, form, signal)
  expect(kept).toMatchObject({ next: null, sinceMs: 1_000 })
  expect(await store.read()).toEqual(kept)
  const [request] = server.requests
  expect(request?.headers.authorization).toBe('Join jt_short_canary')
  expect(JSON.parse(request?.body ?? '')).toMatchObject({
    short_token: kept.pak.split('_')[1],
    name: 'edge',
    cluster_name: 'berlin',
    cluster_uid: 'u',
  })
  expect(request?.body).not.toContain(kept.pak.split('_')[2])
  // Joined is joined: the token is not shown again.
  await join({ store, broker: await server.connect(), now: () => 2_000 }, form, signal)
  expect(server.requests.length).toBe(1)
})

test('a lost answer is repeated with the same hash, also by the next process', async () => {
  let isLost = true
  const server = await scriptedBroker((request, response) =>
    isLost ? void request.socket.destroy() : json(response, 200, { agent: { id: 'a' } }),
  )
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  const deps = { store, broker: await server.connect(), now: () => 1_000 }
  await expect(join(deps, form, signal)).rejects.toThrow(/other side closed|ECONNRESET|socket/)
  isLost = false
  await join({ ...deps, broker: await server.connect() }, form, signal)
  const hashes = server.requests.map(({ body }) => (JSON.parse(body) as { pak_hash: string }).pak_hash)
  expect([hashes.length, new Set(hashes).size]).toEqual([2, 1])
})

test.each([401, 409, 422])('a no (%i) leaves the key for the next try', async (status) => {
  const server = await scriptedBroker((_request, response) => json(response, status, {}))
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  await expect(join({ store, broker: await server.connect(), now: () => 1_000 }, form, signal)).rejects.toMatchObject({ name: 'ApiError' })
  expect(await store.read()).toMatchObject({ sinceMs: null })
})
