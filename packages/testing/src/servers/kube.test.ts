import { describe, expect, onTestFinished, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { cluster, type PrivateCluster, privateCluster } from './kube.ts'
import { nodes } from './nodes.ts'

type ObjectList = { items: { metadata: { name: string }; status?: { phase?: string } }[] }

describe('the shared control plane', () => {
  test('every namespace is new and ready for pods', async () => {
    const { namespace, api } = await cluster()
    const names = await Promise.all([namespace(), namespace('shop'), namespace('shop')])
    expect(new Set(names).size).toBe(3)
    expect(names[1]).toMatch(/^shop-[0-9a-f]{10}$/)
    for (const name of names) expect((await api('GET', `/api/v1/namespaces/${name}/serviceaccounts/default`)).status).toBe(200)
  })

  test('all callers get the same plane', async () => {
    const [first, second] = await Promise.all([cluster(), cluster({ controllers: false })])
    expect([second.url, second.token]).toEqual([first.url, first.token])
  })

  test('the plain token is a user without rights', async () => {
    const { api, plainToken } = await cluster()
    expect((await api('GET', '/api/v1/namespaces', { token: plainToken })).status).toBe(403)
    expect((await api('GET', '/api/v1/namespaces')).status).toBe(200)
  })

  test('a pod on a played node becomes ready', async () => {
    const [node] = await nodes()
    const { api, namespace } = await cluster()
    const name = await namespace()
    const spec = { nodeSelector: { 'kubernetes.io/hostname': node }, containers: [{ name: 'main', image: 'example.invalid/main:1' }] }
    const made = await api('POST', `/api/v1/namespaces/${name}/pods`, {
      body: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec },
    })
    expect(made.status).toBe(201)
    const phase = async () => (await api<{ status?: { phase?: string } }>('GET', `/api/v1/namespaces/${name}/pods/web`)).json.status?.phase
    await waitFor('the pod to run', async () => (await phase()) === 'Running')
  })

  test('nodes can be added at any time', async () => {
    expect(await nodes(2)).toHaveLength(2)
    const { json } = await (await cluster()).api<ObjectList>('GET', '/api/v1/nodes')
    expect(json.items.map(({ metadata }) => metadata.name)).toEqual(expect.arrayContaining(await nodes(2)))
    await expect(nodes(0)).rejects.toThrow(RangeError)
  })
})

test('the API server of a private plane restarts after kill -9 with its data', async () => {
  const own = await ownCluster()
  const kept = await own.namespace('kept')
  const shared = await cluster()
  expect(own.url).not.toBe(shared.url)
  await own.kill('kube-apiserver')
  await expect(own.api('GET', '/readyz')).rejects.toThrow(/ECONNREFUSED|socket hang up|ECONNRESET/)
  expect((await shared.api('GET', '/readyz')).status).toBe(200)
  await own.start('kube-apiserver')
  expect((await own.api('GET', `/api/v1/namespaces/${kept}`)).status).toBe(200)
  expect((await shared.api('GET', `/api/v1/namespaces/${kept}`)).status).toBe(404)
})

async function ownCluster(): Promise<PrivateCluster> {
  const own = await privateCluster()
  onTestFinished(() => own.stop())
  return own
}
