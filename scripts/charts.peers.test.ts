// The charts with the real Helm and a real API server: linted, refused with a clear sentence, installed, upgraded and uninstalled with
// several sets of values in namespaces that enforce restricted pods; what the pods would read is read by the programs' own loaders, and
// operator and controller become ready with the rights that they get.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { agentTable, checkAgentConfig } from '@brokkr/agent/config.ts'
import { brokerTable, checkBrokerConfig } from '@brokkr/broker/config.ts'
import { buildAgentRights } from '@brokkr/broker/invites/rules/agent-rights.ts'
import { operatorTable, readOperatorConfig } from '@brokkr/dataflow/operator/config.ts'
import { buildOperatorRules } from '@brokkr/dataflow/operator/rbac.ts'
import { checkPipelinesConfig, pipelinesTable } from '@brokkr/pipelines/config.ts'
import { rbacManifests } from '@brokkr/pipelines/rbac.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { type Helm, openHelm } from '@brokkr/testing/servers/helm.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { charts } from './charts/charts.ts'
import { canary, type ValueSet, valueSets } from './charts/value-sets.ts'
import { runOperatorWithRights, runPipelinesWithRights } from './test-parts/run-with-rights.ts'

interface Rendered {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Record<string, string> }
  readonly [field: string]: unknown
}
interface Container {
  readonly name: string
  readonly image: string
  readonly env: readonly { readonly name: string; readonly value?: string }[]
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
  readonly securityContext: object
  readonly resources: { readonly limits?: object }
}
interface PodSpec {
  readonly automountServiceAccountToken: boolean
  readonly containers: readonly Container[]
  readonly volumes: readonly {
    readonly name: string
    readonly configMap?: object
    readonly secret?: { readonly items?: { key: string }[] }
  }[]
}

const chartDir = (name: string): string => join(import.meta.dirname, '..', 'charts', name)
let at: PrivateCluster
let helm: Helm

beforeAll(async () => {
  at = await privateCluster()
  helm = await openHelm({ kubeconfigPath: at.kubeconfigPath })
  for (const [group, kind] of [
    ['monitoring.coreos.com', 'ServiceMonitor'],
    ['monitoring.coreos.com', 'PodMonitor'],
    ['monitoring.coreos.com', 'PrometheusRule'],
    ['cert-manager.io', 'Issuer'],
    ['cert-manager.io', 'Certificate'],
  ] as const)
    await createForeignCrd(group, kind)
  for (const name of ['team-a', 'team-b', 'flows-a', 'flows-b']) await createNamespace(name)
  return async () => {
    await helm.close()
    await at.stop()
  }
}, 600_000)

/** Definitions of other projects, without their schemas. */
async function createForeignCrd(group: string, kind: string): Promise<void> {
  const plural = `${kind.toLowerCase()}s`
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }
  const spec = {
    group,
    scope: 'Namespaced',
    names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
    versions: [{ name: 'v1', served: true, storage: true, schema }],
  }
  const body = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: `${plural}.${group}` }, spec }
  const created = await at.api('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', { body })
  expect(created.status).toBe(201)
  await waitFor(`${kind} to be served`, async () => JSON.stringify((await at.api('GET', `/apis/${group}/v1`)).json).includes(`"${kind}"`))
}

async function createNamespace(name: string): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'pod-security.kubernetes.io/warn': 'restricted' }
  const created = await at.api('POST', '/api/v1/namespaces', { body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } } })
  expect(created.status).toBe(201)
}

const readManifest = (text: string): Rendered[] =>
  parseAllDocuments(text).flatMap((document) => {
    const object = document.toJS() as Rendered | null
    return object === null ? [] : [object]
  })
const find = (objects: readonly Rendered[], kind: string): Rendered[] => objects.filter((object) => object.kind === kind)

test('default values and all sets of values pass lint, in strict mode', async () => {
  for (const { name } of charts) expect(await helm.run('lint', '--strict', chartDir(name))).toContain('0 chart(s) failed')
  for (const { chart, values } of valueSets) {
    const output = await helm.run('lint', '--strict', chartDir(chart), '--values', await helm.valuesFile(values))
    expect(output).toContain('1 chart(s) linted, 0 chart(s) failed')
  }
}, 300_000)

test('default values render, or say in one sentence what is missing', async () => {
  const render = (chart: string, ...args: string[]) => helm.run('template', 'demo', chartDir(chart), ...args)
  await expect(render('brokkr-broker')).rejects.toThrow('the broker serves other machines by TLS alone: set tls.existingSecret')
  await expect(render('brokkr-broker', '--set', 'tls.terminatedElsewhere=true')).rejects.toThrow(
    'database.url is missing: name a Secret with the keys database.url and broker.encryption_key in existingSecret',
  )
  await expect(render('brokkr-agent')).rejects.toThrow('config.agent.broker_url is missing')
  expect(find(readManifest(await render('brokkr-pipelines')), 'Deployment')).toHaveLength(1)
  // A null takes a default away.
  await render('brokkr-dataflow', '--set', 'config=null,resources=null,podAnnotations=null,tolerations=null')
  // Without the kinds of Prometheus nothing asks for them.
  expect(find(readManifest(await render('brokkr-dataflow')), 'PodMonitor')).toEqual([])
  expect(
    find(readManifest(await render('brokkr-dataflow', '--api-versions', 'monitoring.coreos.com/v1/PodMonitor')), 'PodMonitor'),
  ).toHaveLength(1)
}, 120_000)

test.each([
  ['an unknown key', 'brokkr-broker', { replicaCount: 3 }, 'replicaCount'],
  ['an unknown setting', 'brokkr-broker', { config: { server: { prot: 1 } } }, 'prot'],
  ['a secret in the configuration', 'brokkr-broker', { config: { database: { url: 'postgres://u:p@h/d' } } }, 'url'],
  ['a setting that the chart decides', 'brokkr-broker', { config: { server: { port: 4000 } } }, 'port'],
  ['a number out of range', 'brokkr-broker', { config: { database: { pool_size: 0 } } }, 'pool_size'],
  ['a text for a number', 'brokkr-broker', { replicas: 'two' }, 'replicas'],
  ['a tag in place of a digest', 'brokkr-broker', { image: { digest: 'v1' } }, 'digest'],
  ['an unknown secret setting', 'brokkr-agent', { secretKeys: ['agent.password'] }, 'secretKeys'],
  ['a wildcard in rights', 'brokkr-agent', { rbac: { customResources: [{ group: 'a.example.com', resources: ['*'] }] } }, 'resources'],
  [
    'rights to rights',
    'brokkr-agent',
    { rbac: { customResources: [{ group: 'rbac.authorization.k8s.io', resources: ['roles'] }] } },
    'group',
  ],
  ['an unknown preset', 'brokkr-agent', { rbac: { preset: 'root' } }, 'preset'],
  ['a policy that is none', 'brokkr-agent', { policy: { allowed_namespaces: ['Team A'] } }, 'allowed_namespaces'],
  ['an unknown variable', 'brokkr-dataflow', { config: { LOG_LEVLE: 'info' } }, 'LOG_LEVLE'],
  ['an unknown certificate mode', 'brokkr-dataflow', { webhook: { certs: 'vault' } }, 'certs'],
  ['a Pipeline window without a zone', 'brokkr-pipelines', { config: { pipelines: { windows: [{}] } } }, 'windows'],
])('the schema refuses %s', async (_what, chart, values, named) => {
  const file = await helm.valuesFile(values)
  const refusal = await helm.run('template', 'demo', chartDir(chart), '--values', file).then(
    () => 'rendered',
    (error: Error) => error.message,
  )
  expect(refusal).toContain("don't meet the specifications of the schema")
  expect(refusal).toContain(named)
})

test.each(valueSets.map((set) => [set.chart, set.name, set] as const))(
  '%s with values "%s" is installed',
  async (chart, name, set) => {
    const namespace = `${chart}-${name}`
    await createNamespace(namespace)
    const values = ['--values', await helm.valuesFile(set.values), '--namespace', namespace]
    await helm.run('install', chart, chartDir(chart), ...values, '--dry-run=server')
    const installed = await helm.run('install', chart, chartDir(chart), ...values)
    expect(installed).not.toMatch(/would violate PodSecurity|warning/i)
    const objects = readManifest(await helm.run('get', 'manifest', chart, '--namespace', namespace))
    for (const object of objects)
      expect((await at.api('GET', pathOf(object, namespace))).status, `${object.kind} ${object.metadata.name}`).toBe(200)
    for (const kind of ['Deployment', 'ServiceAccount', 'PodDisruptionBudget']) expect(find(objects, kind)).toHaveLength(1)
    expect(find(objects, 'NetworkPolicy').length).toBeGreaterThan(0)
    expect(objects.filter(({ kind }) => kind.endsWith('Monitor'))).toHaveLength(1)
    expect(JSON.stringify(objects.filter(({ kind }) => kind !== 'Secret'))).not.toContain(canary)
    await checkPods(objects, namespace)
    await checkSettings(set, objects, namespace)
    checkRights(set, objects, namespace)
    await helm.run('upgrade', chart, chartDir(chart), ...values, '--set', 'podAnnotations.second=yes')
    await helm.run('uninstall', chart, '--namespace', namespace)
    for (const object of objects) {
      // The namespace controller and the garbage collector do not run here: only what Helm deletes itself is looked at.
      const { status } = await at.api('GET', pathOf(object, namespace))
      expect(status, `${object.kind} ${object.metadata.name} after uninstall`).toBe(object.kind === 'CustomResourceDefinition' ? 200 : 404)
    }
  },
  300_000,
)

/** The pods are taken by a namespace that enforces restricted pods, also the one of `helm test`. */
async function checkPods(objects: readonly Rendered[], namespace: string): Promise<void> {
  const [deployment] = find(objects, 'Deployment')
  const hooks = readManifest(
    await helm.run('get', 'hooks', objects[0]!.metadata.labels!['app.kubernetes.io/name']!, '--namespace', namespace),
  )
  const { template } = deployment!['spec'] as { template: { metadata: { labels: object }; spec: PodSpec } }
  const pods = [
    { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'from-template', labels: template.metadata.labels }, spec: template.spec },
    ...find(hooks, 'Pod'),
  ]
  expect(pods).toHaveLength(2)
  const isBroker = deployment!.metadata.name === 'brokkr-broker'
  expect(template.spec.automountServiceAccountToken).toBe(!isBroker)
  const [main] = template.spec.containers
  expect(main).toMatchObject({ livenessProbe: { httpGet: { path: '/healthz' } }, readinessProbe: { httpGet: { path: '/readyz' } } })
  for (const { securityContext, resources } of template.spec.containers) {
    expect(securityContext).toMatchObject({ readOnlyRootFilesystem: true, allowPrivilegeEscalation: false })
    expect(Object.keys(resources.limits ?? {})).toContain('memory')
  }
  for (const body of pods) {
    const created = await at.api('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All&fieldValidation=Strict`, {
      body: withoutAccount(body),
    })
    expect(created, JSON.stringify(created.json)).toMatchObject({ status: 201 })
  }
}

/** No controller makes the default account here; the one of the chart exists. */
const withoutAccount = (pod: object): object => {
  const { spec, ...rest } = pod as { spec: Record<string, unknown> }
  return { ...rest, spec: { serviceAccountName: objectName(rest), ...spec } }
}
const objectName = (pod: object): string => {
  const { metadata } = pod as { metadata: { name: string } }
  return metadata.name.replace(/-test$/, '')
}

const pathOf = ({ apiVersion, kind, metadata }: Rendered, release: string): string => {
  const plural = kind.endsWith('y') ? `${kind.slice(0, -1)}ies` : kind.endsWith('s') ? `${kind}es` : `${kind}s`
  const isOfCluster = /^(Cluster|CustomResource|ValidatingWebhook)/.test(kind)
  const place = isOfCluster ? '' : `/namespaces/${metadata.namespace ?? release}`
  return `${apiVersion.includes('/') ? '/apis/' : '/api/'}${apiVersion}${place}/${plural.toLowerCase()}/${metadata.name}`
}

/** Writes the volumes of the pod into a folder, as the kubelet would, and loads the settings as the program does. */
async function checkSettings(set: ValueSet, objects: readonly Rendered[], namespace: string): Promise<void> {
  const { template } = find(objects, 'Deployment')[0]!['spec'] as { template: { spec: PodSpec } }
  const [container] = template.spec.containers
  expect(container!.env.filter(({ name }) => name === 'NODE_OPTIONS')).toEqual(expectedHeap[set.chart])
  const env = Object.fromEntries(container!.env.map(({ name, value = namespace }) => [name, value]))
  if (set.chart === 'brokkr-dataflow') {
    const config = readOperatorConfig(env)
    expect(Object.keys(env).filter((name) => !(name in operatorTable))).toEqual(['NODE_OPTIONS'])
    expect(config.WATCH_NAMESPACES).toEqual(set.values['watchNamespaces'] ?? [])
    expect(config).toMatchObject(set.values['config'] ?? {})
    expect(config.WEBHOOK_ENABLED).toBe(set.values['webhook'] !== undefined)
    return runOperatorWithRights(at, namespace, env)
  }
  const root = mkdtempSync(join(tmpdir(), 'brokkr-chart-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const files: Record<string, string> = {}
  for (const { name, mountPath } of container!.volumeMounts) {
    const volume = template.spec.volumes.find((one) => one.name === name)!
    if (volume.configMap !== undefined)
      Object.assign(files, {
        [`${mountPath}/config.json`]: (find(objects, 'ConfigMap')[0]!['data'] as Record<string, string>)['config.json']!,
      })
    const secrets = { ...(set.values['secretValues'] as Record<string, string> | undefined), ...set.secret }
    for (const { key } of volume.secret?.items ?? []) files[`${mountPath}/${key}`] = secrets[key]!
  }
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
  const placed = Object.fromEntries(
    Object.entries(env).map(([name, value]) => [name, value.startsWith('/etc/') ? join(root, value) : value]),
  )
  const brokkrEnv = Object.fromEntries(Object.entries(placed).filter(([name]) => name.startsWith('BROKKR')))
  const ignoredSections: string[] = []
  const wanted = (set.values['config'] as object | undefined) ?? {}
  if (set.chart === 'brokkr-broker') {
    const { value } = await loadConfig({ table: brokerTable, env: brokkrEnv, ignoredSections, check: checkBrokerConfig })
    expect(value).toMatchObject(wanted)
  } else if (set.chart === 'brokkr-agent') {
    const { value } = await loadConfig({ table: agentTable, env: brokkrEnv, ignoredSections, check: checkAgentConfig })
    expect(value).toMatchObject(wanted)
    expect(value.agent).toMatchObject((set.values['policy'] as object | undefined) ?? {})
  } else {
    const { value } = await loadConfig({ table: pipelinesTable, env: brokkrEnv, ignoredSections, check: checkPipelinesConfig })
    expect(value).toMatchObject(wanted)
    await runPipelinesWithRights(at, namespace, value)
  }
}

/** Rules come from the tables that the programs' own tests run with. */
function checkRights({ chart, values }: ValueSet, objects: readonly Rendered[], namespace: string): void {
  const rulesOf = (kind: string, name: string, place?: string) =>
    objects.find((one) => one.kind === kind && one.metadata.name === name && (place === undefined || one.metadata.namespace === place))?.[
      'rules'
    ]
  const granted = JSON.stringify(objects.filter(({ kind }) => kind.endsWith('Role')).map((role) => role['rules']))
  expect(granted).not.toMatch(/"\*"|"escalate"|"bind"/)
  if (chart === 'brokkr-broker') expect(find(objects, 'Role')).toEqual([])
  if (chart === 'brokkr-agent') {
    const { preset } = values['rbac'] as { preset: 'standard' | 'namespaced' | 'cluster-admin' | 'observe' }
    const { allowed_namespaces: namespaces = [] } = (values['policy'] ?? {}) as { allowed_namespaces?: string[] }
    const expected = buildAgentRights({ preset, namespaces, own: namespace, account: 'brokkr-agent' }) as unknown as Rendered[]
    for (const { kind, metadata, ...rest } of expected) {
      const [found] = objects.filter(
        (one) => one.kind === kind && one.metadata.name === metadata.name && one.metadata.namespace === metadata.namespace,
      )
      const { rules, ...others } = rest
      expect(found, `${kind} ${metadata.name}`).toMatchObject(others)
      const isForStacks = metadata.name === 'brokkr-agent-stacks' && rules !== undefined
      expect(found?.['rules'], `${kind} ${metadata.name}`).toEqual(isForStacks ? [...(rules as unknown[]), customRule] : rules)
    }
    const roles = objects.filter(({ kind }) => /Role/.test(kind))
    const impersonations = roles.filter(({ metadata }) => metadata.name.endsWith('-impersonate'))
    expect(roles.length - impersonations.length).toBe(expected.length)
    for (const role of find(impersonations, 'Role'))
      expect(role['rules']).toEqual([
        { apiGroups: [''], resources: ['serviceaccounts'], verbs: ['impersonate'], resourceNames: ['builder', 'deployer'] },
      ])
    expect(impersonations).toHaveLength(preset === 'namespaced' ? 2 : 0)
  }
  if (chart === 'brokkr-pipelines') {
    const isNamed = values['rbac'] !== undefined
    const isForSecrets = (rule: unknown) => (rule as { resources: string[] }).resources.includes('secrets')
    for (const { kind, metadata, ...role } of rbacManifests()) {
      if (!kind.endsWith('Role') || metadata.name === 'brokkr-pipelines-observe') continue
      const wanted = (role['rules'] as unknown[]).filter((rule) => kind === 'Role' || !isNamed || !isForSecrets(rule))
      const given = rulesOf(kind, metadata.name, kind === 'Role' ? namespace : undefined) as unknown[]
      expect(given, metadata.name).toHaveLength(wanted.length)
      expect(given, metadata.name).toEqual(expect.arrayContaining(wanted))
    }
  }
  if (chart === 'brokkr-dataflow') {
    const places = (values['watchNamespaces'] ?? []) as string[]
    const operatorRules = buildOperatorRules('brokkr-dataflow-webhook')
    expect(rulesOf('ClusterRole', 'brokkr-dataflow')).toEqual(places.length === 0 ? operatorRules.flows : undefined)
    for (const place of places) expect(rulesOf('Role', 'brokkr-dataflow-flows', place)).toEqual(operatorRules.flows)
    const isSelf = (values['webhook'] as { certs?: string } | undefined)?.certs === 'self'
    expect(rulesOf('Role', 'brokkr-dataflow', namespace)).toEqual([...operatorRules.own, ...(isSelf ? operatorRules.certificates : [])])
    expect(rulesOf('ClusterRole', 'brokkr-dataflow-webhook')).toEqual(isSelf ? operatorRules.webhook : undefined)
  }
}

/** 60 % of 512 MiB; the image of the agent has its own flags. */
const heap = [{ name: 'NODE_OPTIONS', value: '--max-old-space-size=307' }]
const expectedHeap = { 'brokkr-broker': heap, 'brokkr-agent': [], 'brokkr-pipelines': heap, 'brokkr-dataflow': heap }

const customRule = {
  apiGroups: ['cert-manager.io'],
  resources: ['certificates', 'issuers'],
  verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
}

test('every chart has a set of values here', () => {
  expect([...new Set(valueSets.map(({ chart }) => chart))]).toEqual(charts.map(({ name }) => name))
})
