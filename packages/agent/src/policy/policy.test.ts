import { generateKeyPairSync, sign } from 'node:crypto'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { toSignedBytes } from '../reconcile/plan/signature.ts'
import { type AgentOptions, type AgentWorld, manifest, startAgentWorld } from '../test-parts/agent-world.ts'
import { marker, put, stackId } from '../test-parts/frames.ts'
import { CONFIG_MAP, configMap, generatorId, type ReconcileWorld, reconcileWorld } from '../test-parts/reconcile-world.ts'
import { listAllowedNamespaces, type Policy } from './policy.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
beforeAll(async () => {
  at = await cluster({ controllers: false })
})
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgentWorld(world, { settings: { tenants: ungranted } })
})
afterEach(() => agent.stop())

const ungranted = { grants: {}, identities: {}, identitiesRequired: false }
const restart = async (options: AgentOptions) => {
  await agent.stop()
  agent = await startAgentWorld(world, options)
}
const map = (name: string, data: Record<string, unknown> = {}) => configMap(namespace, name, data)
const find = (name: string, where = namespace) => world.kube.find({ ...CONFIG_MAP, namespace: where, name })
const rbac = 'rbac.authorization.k8s.io/v1'
const binding = (name: string) => ({
  apiVersion: rbac,
  kind: 'ClusterRoleBinding',
  metadata: { name },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
  subjects: [],
})
/** Requests about objects, those about the agent's own records and about the API itself apart. */
const asked = () =>
  world.recorder.requests.filter(
    ({ path }) => !path.includes(`/namespaces/${world.own}/`) && /^\/(api\/v1|apis\/[^/]+\/[^/]+)\/./.test(path),
  )

test('[A47] the namespace of the agent, bindings and pod-security labels need a grant', async () => {
  const secured = {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespace, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
  }
  world.recorder.clear()
  agent.list(
    put(1, 1, manifest(configMap(world.own, 'a'))),
    put(2, 1, manifest(map('a'), binding(namespace))),
    put(3, 1, manifest(map('a'), secured)),
    put(4, 1, manifest({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: world.own } })),
  )
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({ code: 'outside_scope', message: expect.stringContaining(world.own) })
  expect(await agent.reported(2, 'failed', 1)).toMatchObject({
    code: 'policy_denied',
    message: expect.stringContaining('clusterScoped, rbac'),
  })
  expect(await agent.reported(3, 'failed', 1)).toMatchObject({ code: 'policy_denied', message: expect.stringContaining('podSecurity') })
  expect(await agent.reported(4, 'failed', 1)).toMatchObject({ code: 'outside_scope' })
  expect(asked()).toEqual([])
  expect(world.recorder.requests.filter(({ method }) => method !== 'GET')).toEqual([])
})

test('[X15] a pod-security label without a grant rejects the whole stack', async () => {
  const fresh = `${namespace}-new`
  const labelled = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' }, annotations: { 'brokkr.io/adopt': 'true' } },
  })
  const ref = (name: string) => ({ apiVersion: 'v1', kind: 'Namespace', name })
  await world.kube.patch(ref(namespace), {
    type: 'merge',
    body: { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'baseline' } } },
  })
  agent.list(put(1, 1, manifest(labelled(fresh), map('a'))), put(2, 1, manifest(labelled(namespace), map('b'))))
  for (const n of [1, 2]) expect(await agent.reported(n, 'failed', 1)).toMatchObject({ code: 'policy_denied' })
  expect(await world.kube.find(ref(fresh))).toBeUndefined()
  expect((await world.kube.get(ref(namespace))).metadata.labels?.['pod-security.kubernetes.io/enforce']).toBe('baseline')
  expect([await find('a'), await find('b')]).toEqual([undefined, undefined])
  await restart({ settings: { tenants: { ...ungranted, grants: { [generatorId]: ['podSecurity'] } } } })
  agent.list(put(1, 1, manifest(labelled(fresh), map('a'))))
  await agent.reported(1, 'applied', 1)
})

test.each([
  ['a binding to cluster-admin', () => binding(namespace)],
  ['a Role', () => ({ apiVersion: rbac, kind: 'Role', metadata: { name: 'r', namespace }, rules: [] })],
  ['a ClusterRole', () => ({ apiVersion: rbac, kind: 'ClusterRole', metadata: { name: namespace }, rules: [] })],
  [
    'a definition',
    () => ({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: 'x.example.com' }, spec: {} }),
  ],
  [
    'an admission configuration',
    () => ({ apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration', metadata: { name: namespace } }),
  ],
  ['an APIService', () => ({ apiVersion: 'apiregistration.k8s.io/v1', kind: 'APIService', metadata: { name: 'v1.example.com' } })],
  [
    'another cluster-scoped kind',
    () => ({ apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name: namespace }, value: 1 }),
  ],
])('[X34] %s without a grant is denied before any request', async (_what, object) => {
  world.recorder.clear()
  agent.list(put(1, 1, manifest(map('a'), object())))
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({ code: 'policy_denied' })
  expect(asked()).toEqual([])
})

test('an agent without the generator of a stack denies only objects that need a grant', async () => {
  const { generators } = agent.deps
  generators.find = () => Promise.reject(new Error('the broker is away'))
  agent.list(put(1, 1, manifest(map('a'))), put(2, 1, manifest(binding(namespace))))
  await agent.reported(1, 'applied', 1)
  await agent.reported(2, 'failed', 1)
})

test('[X33] outside the allowed namespaces no request of any kind is made', async () => {
  const outside = await at.namespace()
  agent.list(put(1, 1, manifest(map('in'), configMap(outside, 'out'), configMap(outside, 'dropped'))))
  await agent.reported(1, 'applied', 1)
  const uids = async () => [(await find('out', outside))?.metadata.uid, (await find('dropped', outside))?.metadata.uid]
  const before = await uids()
  const policy: Policy = { ...agent.deps.settings.policy, allowedNamespaces: [namespace] }
  await restart({ settings: { policy } })
  world.recorder.clear()
  const priority = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name: namespace }, value: 1 }
  const omitted = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'omitted' } }
  agent.list(
    put(1, 2, manifest(map('in', { x: '2' }))),
    put(2, 1, manifest(configMap(outside, 'elsewhere'))),
    put(3, 1, manifest(priority)),
    put(4, 1, manifest(omitted)),
  )
  // Prune: what stands outside is neither deleted nor forgotten.
  await agent.reported(1, 'applied', 2)
  for (const n of [2, 3, 4]) expect(await agent.reported(n, 'failed', 1)).toMatchObject({ code: 'outside_scope' })
  // Drift: inside it is healed, outside nobody looks.
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'in' })
  await waitFor('the member inside to be healed', () => find('in'))
  agent.live(marker(1, 3))
  expect(await agent.reported(1, 'pending', 3, 'removing')).toMatchObject({ message: expect.stringContaining(outside) })
  expect(await uids()).toEqual(before)
  const foreign = asked().filter(({ path }) => !path.includes(`/namespaces/${namespace}/`))
  expect(foreign.map(({ method, path }) => `${method} ${path}`)).toEqual([])
})

test.each([
  ['no limit', { allowedNamespaces: [], watchNamespace: null }, null],
  ['a list', { allowedNamespaces: ['a', 'own'], watchNamespace: null }, ['a']],
  ['one namespace', { allowedNamespaces: [], watchNamespace: 'a' }, ['a']],
  ['a list and one of it', { allowedNamespaces: ['a', 'b'], watchNamespace: 'b' }, ['b']],
  ['a list and one outside of it', { allowedNamespaces: ['a'], watchNamespace: 'b' }, []],
])('namespaces in scope: %s', (_what, change, expected) => {
  expect(listAllowedNamespaces({ protectedNamespaces: ['own'], deniedKinds: [], ...change })).toEqual(expected)
})

test('[X14] all requests of a generator use its ServiceAccount and its RBAC permissions', async () => {
  const other = await at.namespace()
  const account = `system:serviceaccount:${namespace}:tenant`
  await world.kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'tenant', namespace } })
  await world.kube.create({
    apiVersion: rbac,
    kind: 'Role',
    metadata: { name: 'tenant', namespace },
    rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'create', 'patch', 'delete'] }],
  })
  await world.kube.create({
    apiVersion: rbac,
    kind: 'RoleBinding',
    metadata: { name: 'tenant', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'tenant' },
    subjects: [{ kind: 'ServiceAccount', name: 'tenant', namespace }],
  })
  await restart({ settings: { tenants: { ...ungranted, identities: { [generatorId]: `${namespace}/tenant` } } } })
  world.recorder.clear()
  agent.list(put(1, 1, manifest(map('a', { x: '1' }), map('b'), map('c'))))
  await agent.reported(1, 'applied', 1)
  await world.kube.patch(
    { ...CONFIG_MAP, namespace, name: 'a' },
    { type: 'merge', body: { data: { x: 'theirs' } } },
    { fieldManager: 'kubectl-edit' },
  )
  await agent.event('DRIFT')
  agent.live(put(1, 2, manifest(map('a', { x: '2' }), map('b'))))
  await agent.reported(1, 'applied', 2)
  agent.live(put(2, 1, manifest(configMap(other, 'a'))))
  expect(await agent.reported(2, 'failed', 1)).toMatchObject({ code: 'forbidden', message: expect.stringContaining(account) })
  expect(await find('a', other)).toBeUndefined()
  agent.live(marker(1, 3))
  await agent.event('DELETED')
  // The watch over the whole cluster, and the list it begins with, are the agent's own.
  const about = world.recorder.requests.filter(({ path }) => /^\/api\/v1\/namespaces\/[^/]+\/configmaps/.test(path))
  expect(new Set(about.map(({ method, isDryRun }) => (isDryRun ? `dry ${method}` : method)))).toEqual(
    new Set(['GET', 'PATCH', 'dry PATCH', 'DELETE']),
  )
  expect(about.filter(({ as }) => as !== account)).toEqual([])
})

test('[X12] require_signatures rejects unsigned manifests before any API request', async () => {
  const [known, foreign] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')]
  const keys = { ci: known.publicKey.export({ type: 'spki', format: 'pem' }).toString() }
  await restart({ settings: { signatures: { isRequired: true, keys } } })
  const signed = (text: string, { privateKey }: typeof known) =>
    `# brokkr-signature: ci ${sign(null, toSignedBytes(text), privateKey).toString('base64')}\n${text}`
  const text = manifest(map('a'))
  world.recorder.clear()
  agent.list(put(1, 1, text), put(2, 1, signed(text, foreign)))
  for (const n of [1, 2]) expect(await agent.reported(n, 'failed', 1)).toMatchObject({ code: 'signature_refused' })
  // What the agent reads of its own, in its own namespace, is about no manifest.
  const isOwn = ({ method, path }: { method: string; path: string }) =>
    method === 'GET' && path.startsWith(`/api/v1/namespaces/${world.own}/`)
  expect(world.recorder.requests.filter((request) => !isOwn(request))).toEqual([])
  agent.live(put(1, 2, signed(text, known)))
  await agent.reported(1, 'applied', 2)
})

test('a generator without an identity acts as the agent unless identities are required', async () => {
  await restart({ settings: { tenants: { ...ungranted, identitiesRequired: true } } })
  agent.list(put(1, 1, manifest(map('a'))))
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({
    code: 'policy_denied',
    message: expect.stringContaining('agent.identities'),
  })
  expect(await find('a')).toBeUndefined()
})

test('a generator named __system__ has only the grants configured for its id', async () => {
  const claim = (generator: string) => {
    agent.deps.generators.find = () => Promise.resolve({ generatorId: generator, name: '__system__' })
  }
  claim(generatorId)
  world.recorder.clear()
  agent.list(put(1, 1, manifest(binding(namespace))))
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({ code: 'policy_denied' })
  expect(asked()).toEqual([])
  await restart({ settings: { tenants: { ...ungranted, identitiesRequired: true } } })
  claim(generatorId)
  agent.list(put(2, 1, manifest(map('a'))))
  expect(await agent.reported(2, 'failed', 1)).toMatchObject({ code: 'policy_denied' })
  expect(await find('a')).toBeUndefined()
})

test('[X12] a compromised broker that claims listed ids gets only the local grants', async () => {
  const [first, second] = [generatorId, '0c000000-0000-4000-8000-000000000002']
  const role = { apiVersion: rbac, kind: 'Role', metadata: { name: 'r', namespace }, rules: [] }
  const secured = {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: `${namespace}-new`, labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
  }
  const granted = { [first]: ['rbac' as const], [second]: ['podSecurity' as const] }
  await restart({ settings: { tenants: { ...ungranted, grants: granted } } })
  const claims: Record<string, string> = {}
  agent.deps.generators.find = (id) => Promise.resolve({ generatorId: claims[id] ?? '', name: '__system__' })
  // Each id that is listed is claimed for what its own grants do not cover, and so are names that no configuration lists.
  const claimed = [first, second, '__system__', 'constructor', '__proto__']
  for (const [n, id] of claimed.entries()) claims[stackId(n + 1)] = id
  claims[stackId(8)] = first
  claims[stackId(9)] = second
  agent.list(
    ...claimed.map((_id, n) => put(n + 1, 1, manifest(binding(`${namespace}-${n}`)))),
    put(8, 1, manifest(role)),
    put(9, 1, manifest(secured)),
  )
  for (const n of claimed.keys()) expect(await agent.reported(n + 1, 'failed', 1)).toMatchObject({ code: 'policy_denied' })
  await agent.reported(8, 'applied', 1)
  await agent.reported(9, 'applied', 1)
})

test('the generator of a stack survives a restart without the broker, also for its removal', async () => {
  const identities = { [generatorId]: `${namespace}/tenant` }
  await restart({ settings: { tenants: { ...ungranted, identities } } })
  await world.kube.create({
    apiVersion: rbac,
    kind: 'ClusterRoleBinding',
    metadata: { name: namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'tenant', namespace }],
  })
  agent.list(put(1, 1, manifest(map('a'))))
  await agent.reported(1, 'applied', 1)
  await restart({ settings: { tenants: { ...ungranted, identities } } })
  agent.deps.generators.find = () => Promise.reject(new Error('the broker is away'))
  agent.list(put(1, 1, manifest(map('a'))))
  agent.live(marker(1, 2))
  await agent.event('DELETED')
  expect(await find('a')).toBeUndefined()
  expect(agent.map.desired.stacks.has(stackId(1))).toBe(true)
})
