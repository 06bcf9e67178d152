import { openKube } from '@brokkr/kube/client.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { cluster, type TestCluster } from '@brokkr/testing/kube.ts'
import { beforeAll, expect, test } from 'vitest'
import { join } from './join.ts'
import { keyJudge } from './key-judge.ts'
import { type KeyStore, keyStore } from './own-key.ts'
import { json, type ScriptedBroker, scriptedBroker } from './test-parts/scripted-broker.ts'

let at: TestCluster
let kube: Kube
const signal = new AbortController().signal
beforeAll(async () => {
  at = await cluster({ controllers: false })
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  return () => kube.close()
})
/** As at the first start: there is no key that a request could carry. */
const keyless = {
  pak: () => {
    throw new Error('there is no key yet')
  },
}
async function joining(server: ScriptedBroker, store: KeyStore, atMs = 1_000) {
  const broker = await server.connect(keyless)
  return join({ store, broker, judge: keyJudge(broker.client, () => 'a' as never, signal), now: () => atMs }, form, signal)
}
const form = { token: 'jt_short_canary', name: 'edge', clusterName: 'berlin', clusterUid: 'u', agentVersion: '1', k8sVersion: 'v1' }

test('an agent without a key makes one, keeps it first, and tells the broker its hash under the token, never the key', async () => {
  const server = await scriptedBroker((_request, response) => json(response, 201, { agent: { id: 'a' } }))
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  const kept = await joining(server, store)
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
  await joining(server, store, 2_000)
  expect(server.requests.length).toBe(1)
})

test('a lost answer is repeated with the same hash, also by the next process', async () => {
  let isLost = true
  const server = await scriptedBroker((request, response) =>
    isLost ? void request.socket.destroy() : json(response, 200, { agent: { id: 'a' } }),
  )
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  await expect(joining(server, store)).rejects.toThrow(/other side closed|ECONNRESET|socket/)
  isLost = false
  await joining(server, store)
  const hashes = server.requests.map(({ body }) => (JSON.parse(body) as { pak_hash: string }).pak_hash)
  expect([hashes.length, new Set(hashes).size]).toEqual([2, 1])
})

test.each([401, 409, 422])('a no (%i) leaves the key for the next try', async (status) => {
  const server = await scriptedBroker((_request, response) => json(response, status, {}))
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  await expect(joining(server, store)).rejects.toMatchObject({ name: 'ApiError' })
  expect(await store.read()).toMatchObject({ sinceMs: null })
})

test('a token that ended after the broker took the key is no reason to stay outside: the key itself tells', async () => {
  const server = await scriptedBroker((_request, response, url) =>
    url.pathname.endsWith('/join') ? void response.writeHead(401).end() : json(response, 200, { agent: 'a' }),
  )
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  const kept = await joining(server, store)
  expect([kept.sinceMs, await store.read()]).toEqual([1_000, kept])
  const asked = server.requests.map(({ url, headers }) => [url.pathname, headers.authorization])
  expect(asked).toEqual([
    ['/api/v1/join', `Join ${form.token}`],
    ['/api/v1/auth/pak', `Bearer ${kept.pak}`],
  ])
})

test('a token that opens nothing is told in words, without the token', async () => {
  const server = await scriptedBroker((_request, response) => void response.writeHead(401).end())
  const store = keyStore({ kube }, await at.namespace('join'), signal)
  const refused = await joining(server, store).catch((error: unknown) => error as Error)
  expect((refused as Error).message).toMatch(/^the join token is unknown, used up, revoked or expired\. .*agent\.join_token_file$/)
  expect(String((refused as Error).stack)).not.toContain('canary')
})
