import { type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { beforeAll, expect, test } from 'vitest'
import { json, type ScriptedBroker, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { join } from './join.ts'
import { createPakStore, type PakStore } from './own-pak.ts'
import { createPakProbe } from './pak-probe.ts'

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
    throw new Error('the agent has no PAK yet')
  },
}
async function joining(server: ScriptedBroker, store: PakStore, atMs = 1_000) {
  const broker = await server.connect(keyless)
  return join({ store, broker, probe: createPakProbe(broker.client, () => 'a' as never, signal), now: () => atMs }, form, signal)
}
const form = { token: 'jt_short_canary', name: 'edge', clusterName: 'berlin', clusterUid: 'u', agentVersion: '1', k8sVersion: 'v1' }

test('a joining agent stores its PAK first and sends only its hash', async () => {
  const server = await scriptedBroker((_request, response) => json(response, 201, { agent: { id: 'a' } }))
  const store = createPakStore({ kube }, await at.namespace('join'), signal)
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

test('a lost join response is retried with the same hash, also after a restart', async () => {
  let isLost = true
  const server = await scriptedBroker((request, response) =>
    isLost ? void request.socket.destroy() : json(response, 200, { agent: { id: 'a' } }),
  )
  const store = createPakStore({ kube }, await at.namespace('join'), signal)
  await expect(joining(server, store)).rejects.toThrow(/other side closed|ECONNRESET|socket/)
  isLost = false
  await joining(server, store)
  const hashes = server.requests.map(({ body }) => (JSON.parse(body) as { pak_hash: string }).pak_hash)
  expect([hashes.length, new Set(hashes).size]).toEqual([2, 1])
})

test.each([401, 409, 422])('a rejected join (%i) keeps the PAK for the next attempt', async (status) => {
  const server = await scriptedBroker((_request, response) => json(response, status, {}))
  const store = createPakStore({ kube }, await at.namespace('join'), signal)
  await expect(joining(server, store)).rejects.toMatchObject({ name: 'ApiError' })
  expect(await store.read()).toMatchObject({ sinceMs: null })
})

test('an expired join token is no error if the broker already accepted the PAK', async () => {
  const server = await scriptedBroker((_request, response, url) =>
    url.pathname.endsWith('/join') ? void response.writeHead(401).end() : json(response, 200, { agent: 'a' }),
  )
  const store = createPakStore({ kube }, await at.namespace('join'), signal)
  const kept = await joining(server, store)
  expect([kept.sinceMs, await store.read()]).toEqual([1_000, kept])
  const asked = server.requests.map(({ url, headers }) => [url.pathname, headers.authorization])
  expect(asked).toEqual([
    ['/api/v1/join', `Join ${form.token}`],
    ['/api/v1/auth/pak', `Bearer ${kept.pak}`],
  ])
})

test('an invalid join token is explained without quoting it', async () => {
  const server = await scriptedBroker((_request, response) => void response.writeHead(401).end())
  const store = createPakStore({ kube }, await at.namespace('join'), signal)
  const refused = await joining(server, store).catch((error: unknown) => error as Error)
  expect((refused as Error).message).toMatch(/^the join token is unknown, used up, revoked or expired\. .*agent\.join_token_file$/)
  expect(String((refused as Error).stack)).not.toContain('canary')
})
