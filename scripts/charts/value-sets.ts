// Values with which the charts are tested: the least that each needs, and sets that together reach every template.
import { createHash, randomBytes } from 'node:crypto'

export interface ValueSet {
  readonly chart: 'brokkr-broker' | 'brokkr-agent' | 'brokkr-pipelines' | 'brokkr-dataflow'
  readonly name: string
  readonly values: Readonly<Record<string, unknown>>
  /** Namespaces beside the release's own that the values name. */
  readonly namespaces?: readonly string[]
  /** Content of existingSecret. */
  readonly secret?: Readonly<Record<string, string>>
}

/** A text that must be in no ConfigMap. */
export const canary = `S3CR3T-${randomBytes(8).toString('hex')}`
const databaseUrl = `postgres://brokkr:${canary}@postgres.example.invalid/brokkr`
const encryptionKey = createHash('sha256').update(canary).digest('hex')
const digest = `sha256:${createHash('sha256').update('image').digest('hex')}`
const generator = '0b7e3f0e-5d0a-4c5f-9f3b-1d2e3f4a5b6c'
const agent = { broker_url: 'https://brokkr.example.invalid', agent_name: 'edge-17', cluster_name: 'fra-2' }
const joinToken = { 'agent.join_token': `jt_${canary}` }

const brokerSets: ValueSet[] = [
  {
    chart: 'brokkr-broker',
    name: 'least',
    values: { existingSecret: 'broker-settings', tls: { terminatedElsewhere: true } },
    secret: { 'database.url': databaseUrl, 'broker.encryption_key': encryptionKey },
  },
  {
    chart: 'brokkr-broker',
    name: 'all',
    values: {
      image: { digest },
      config: {
        limits: { object_body_bytes: 12_582_912 },
        broker: {
          agent_image: `registry.example.invalid/agent@${digest}`,
          pipelines_url: 'http://pipelines:8082',
          webhook_allowed_cidrs: ['10.0.0.0/8'],
        },
        feed: { stale_seconds: [5, 60] },
        tasks: { 'audit-cleanup': { every_seconds: 600 } },
        server: { shutdown_seconds: 45 },
      },
      secretValues: {
        'database.url': databaseUrl,
        'broker.encryption_key': encryptionKey,
        'broker.pipelines_key': canary.padEnd(40, 'x'),
      },
      tls: { existingSecret: 'broker-tls' },
      ingress: { enabled: true, className: 'public', host: 'brokkr.example.invalid', tlsSecret: 'brokkr-host', annotations: { a: 'b' } },
      preview: { enabled: true },
      extraEnv: [{ name: 'HTTPS_PROXY', value: 'http://proxy.example.invalid:3128' }],
      networkPolicy: { from: [{ namespaceSelector: {} }], metricsFrom: [{ namespaceSelector: {} }] },
      metrics: { serviceMonitor: { labels: { team: 'ops' } } },
    },
  },
]

const agentSets: ValueSet[] = [
  ...(['standard', 'cluster-admin', 'observe'] as const).map(
    (preset): ValueSet => ({
      chart: 'brokkr-agent',
      name: preset,
      values: { config: { agent }, rbac: { preset }, existingSecret: 'agent-settings', secretKeys: ['agent.join_token'] },
      secret: joinToken,
    }),
  ),
  {
    chart: 'brokkr-agent',
    name: 'namespaced',
    values: {
      config: { agent: { ...agent, kube_qps: 20.5 }, log: { level: 'debug' } },
      rbac: { preset: 'namespaced', customResources: [{ group: 'cert-manager.io', resources: ['certificates', 'issuers'] }] },
      policy: {
        allowed_namespaces: ['team-a', 'team-b'],
        denied_kinds: ['Secret'],
        identities: { [generator]: 'team-a/deployer', __work_orders__: 'team-a/builder' },
        grants: { [generator]: ['rbac'] },
      },
      secretValues: joinToken,
      tls: { caSecret: 'broker-ca', clientSecret: 'agent-client' },
    },
    namespaces: ['team-a', 'team-b'],
  },
]

const pipelinesSets: ValueSet[] = [
  { chart: 'brokkr-pipelines', name: 'least', values: {} },
  {
    chart: 'brokkr-pipelines',
    name: 'all',
    values: {
      replicas: 3,
      crds: { enabled: false },
      config: {
        pipelines: {
          broker_url: 'https://brokkr.example.invalid',
          git_max_bytes: 2_000_000_000,
          git_allowed_hosts: ['git.example.invalid'],
        },
      },
      secretValues: { 'pipelines.vouching_keys': canary.padEnd(40, 'x') },
      rbac: { secrets: 'named', secretNames: [{ namespace: 'team-a', names: ['git-token', 'hook-key'] }] },
      tls: { existingSecret: 'hooks-tls' },
      ingress: { enabled: true, host: 'hooks.example.invalid' },
    },
    namespaces: ['team-a'],
  },
]

const webhook = (values: Record<string, unknown>) => ({ webhook: { enabled: true, ...values } })
const dataflowSets: ValueSet[] = [
  { chart: 'brokkr-dataflow', name: 'least', values: {} },
  { chart: 'brokkr-dataflow', name: 'webhook-self', values: { ...webhook({ certs: 'self' }), crds: { enabled: false } } },
  { chart: 'brokkr-dataflow', name: 'webhook-cert-manager', values: { ...webhook({ certs: 'cert-manager' }), crds: { enabled: false } } },
  {
    chart: 'brokkr-dataflow',
    name: 'webhook-provided',
    values: {
      ...webhook({ certs: 'provided', existingSecret: 'webhook-tls', caBundle: '-----BEGIN CERTIFICATE-----\n' }),
      crds: { enabled: false },
      config: {
        MAX_CONCURRENT_RECONCILES: 4,
        WATCH_SECRETS: false,
        PROCESSOR_POD_LABELS: ['team=a', 'zone=b'],
        PROCESSOR_LOG_LEVEL: 'debug',
      },
      watchNamespaces: ['flows-a', 'flows-b'],
      processor: { image: { digest }, egressCidrs: ['10.1.0.0/16'] },
    },
    namespaces: ['flows-a', 'flows-b'],
  },
]

export const valueSets: readonly ValueSet[] = [...brokerSets, ...agentSets, ...pipelinesSets, ...dataflowSets]
