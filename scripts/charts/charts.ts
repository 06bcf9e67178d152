// The charts: values, rules of their roles and definitions, each from its one source in the code. Pure.
import { agentTable } from '@brokkr/agent/config.ts'
import { brokerTable } from '@brokkr/broker/config.ts'
import { buildAgentRights } from '@brokkr/broker/invites/rules/agent-rights.ts'
import { dataFlowCrd, dataFlowCronCrd } from '@brokkr/contract/dataflow/crds.ts'
import type { Preset } from '@brokkr/contract/invites/agent-invite.ts'
import { pipelineCrd, promotionCrd } from '@brokkr/contract/pipelines/crds.ts'
import { operatorTable } from '@brokkr/dataflow/operator/config.ts'
import { buildOperatorRules } from '@brokkr/dataflow/operator/rbac.ts'
import { pipelinesTable } from '@brokkr/pipelines/config.ts'
import { rbacManifests } from '@brokkr/pipelines/rbac.ts'
import { buildCommonValues, crdValues, imageValues, ingressValues, namespaceList, tcp } from './common-values.ts'
import { buildConfigValue, buildEnvironmentValue, buildSecretValues, buildSectionValue } from './setting-values.ts'
import { choice, flag, number, object, shaped, text, type Values } from './values.ts'

export interface Chart {
  readonly name: string
  readonly description: string
  readonly values: Values
  /** Name of a set of rules → rules, for `include "brokkr.rules.<name>"`. */
  readonly rules: Readonly<Record<string, readonly unknown[]>>
  /** File name → definition. */
  readonly crds: Readonly<Record<string, object>>
}

const limits = (cpu: string, memory: string, cpuMax: string, memoryMax: string): object => ({
  requests: { cpu, memory },
  limits: { cpu: cpuMax, memory: memoryMax },
})
const kubeApi = 'The API server is on port 443 or 6443 of most clusters.'

/** Set by the templates from other values. */
export const managedSettings = {
  broker: [
    'server.host',
    'server.port',
    'server.tls_terminated_elsewhere',
    'server.tls_cert_file',
    'server.tls_key_file',
    'metrics.port',
    'broker.dataflow_preview_url',
  ],
  agent: [
    'agent.preset',
    'agent.health_host',
    'agent.health_port',
    'agent.kubeconfig_path',
    'agent.namespace',
    'agent.ca_file',
    'agent.client_cert',
    'agent.client_key',
    'agent.state_dir',
  ],
  pipelines: [
    'pipelines.metrics_port',
    'pipelines.health_probe_port',
    'pipelines.promotion_hook_port',
    'pipelines.bind_host',
    'pipelines.kubeconfig_path',
    'pipelines.namespace',
    'pipelines.git_cache_dir',
    'pipelines.install_crds',
    'pipelines.tls_cert_file',
    'pipelines.tls_key_file',
  ],
  dataflow: [
    'PROCESSOR_IMAGE',
    'WATCH_NAMESPACES',
    'OPERATOR_NAMESPACE',
    'OPERATOR_DEPLOYMENT_NAME',
    'OPERATOR_INSTALL_CRDS',
    'OPERATOR_PROGRESS_FROM_ANNOTATION',
    'OPERATOR_BIND_HOST',
    'OPERATOR_METRICS_PORT',
    'OPERATOR_PROBE_PORT',
    'WEBHOOK_ENABLED',
    'WEBHOOK_PORT',
    'WEBHOOK_CERT_DIR',
    'WEBHOOK_SERVICE_NAME',
    'WEBHOOK_CONFIGURATION_NAME',
    'KUBECONFIG',
  ],
} as const

/** The local policy of an agent, which the broker cannot override. */
const policySettings = [
  'watch_namespace',
  'allowed_namespaces',
  'protected_namespaces',
  'denied_kinds',
  'grants',
  'identities',
  'identities_required',
  'require_signatures',
  'signature_keys',
].map((name) => `agent.${name}`)

const broker: Chart = {
  name: 'brokkr-broker',
  description: 'The broker of Brokkr with its console: desired state of all clusters, on PostgreSQL',
  values: {
    ...buildCommonValues({
      program: 'broker',
      replicas: 2,
      resources: limits('100m', '256Mi', '500m', '512Mi'),
      monitor: 'serviceMonitor',
      hasRules: true,
      egress: [tcp(5432), tcp(443), tcp(8082)],
      egressText:
        'Default: PostgreSQL on 5432, receivers of webhooks and other services on 443, the pipelines controller on 8082. Name their networks here.',
    }),
    config: buildConfigValue(brokerTable, managedSettings.broker),
    ...buildSecretValues(brokerTable, ['database.url', 'broker.encryption_key']),
    tls: {
      existingSecret: text('Secret with tls.crt and tls.key: the broker serves TLS itself.'),
      terminatedElsewhere: flag('A proxy or Ingress in front terminates TLS; the broker serves plain HTTP in the cluster.', false),
    },
    service: {
      type: choice('Type of the Service.', ['ClusterIP', 'NodePort', 'LoadBalancer'], 'ClusterIP'),
      port: number('Port of the Service.', 3000, 1, 65_535),
      annotations: object('Annotations of the Service.'),
    },
    ingress: ingressValues,
    preview: {
      enabled: flag('Runs the preview of data flows beside the broker, for the console.', false),
      image: imageValues('brokkr/dataflow-processor'),
      resources: object('Requests and limits of the preview.', limits('50m', '128Mi', '500m', '256Mi')),
    },
  },
  rules: {},
  crds: {},
}

type Rules = readonly unknown[]

function findAgentRules(preset: Preset, kind: 'Role' | 'ClusterRole', name: string): Rules {
  const rights = buildAgentRights({ preset, namespaces: ['stacks'], own: '{{ .Release.Namespace }}', account: 'agent' })
  const role = rights.find((right) => right['kind'] === kind && (right['metadata'] as { name: string }).name === name)
  return (role as unknown as { rules: Rules }).rules
}

/** Named resources alone: no wildcard, no rights, no admission. */
const customResource = {
  type: 'object',
  additionalProperties: false,
  required: ['group', 'resources'],
  properties: {
    group: {
      type: 'string',
      pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$',
      not: { pattern: '^(rbac.authorization|admissionregistration|apiregistration)\\.k8s\\.io$' },
    },
    resources: { type: 'array', minItems: 1, items: { type: 'string', pattern: '^[a-z0-9]+(/[a-z]+)?$' } },
  },
}

const agent: Chart = {
  name: 'brokkr-agent',
  description: 'The agent of Brokkr: brings one cluster to the state that the broker holds',
  values: {
    ...buildCommonValues({
      program: 'agent',
      replicas: 1,
      resources: limits('50m', '128Mi', '200m', '256Mi'),
      monitor: 'podMonitor',
      hasRules: false,
      egress: [tcp(443, 6443, 3000)],
      egressText: `Default: API server, and the broker on 443 or on port 3000 of its pods. ${kubeApi}`,
    }),
    config: buildConfigValue(agentTable, [...managedSettings.agent, ...policySettings]),
    ...buildSecretValues(agentTable, []),
    rbac: {
      preset: choice(
        'Rights of the agent. cluster-admin only if you mean it.',
        ['standard', 'namespaced', 'cluster-admin', 'observe'],
        'standard',
      ),
      customResources: shaped(
        'Kinds of other groups that stacks contain: with standard and namespaced they may be written, with observe read.',
        { type: 'array', items: customResource },
        [],
        ['- {group: cert-manager.io, resources: [certificates, issuers]}'],
      ),
    },
    policy: buildSectionValue(
      agentTable,
      policySettings,
      'Local policy: what this cluster allows, whatever the broker says. The preset namespaced needs allowed_namespaces.',
    ),
    tls: {
      caSecret: text("Secret with ca.crt: certificates that the broker's certificate must chain to."),
      clientSecret: text('Secret with tls.crt and tls.key: client certificate for the broker.'),
    },
  },
  rules: {
    own: findAgentRules('standard', 'Role', 'agent'),
    identity: findAgentRules('standard', 'ClusterRole', 'agent-identity'),
    standard: findAgentRules('standard', 'ClusterRole', 'agent'),
    namespaced: findAgentRules('namespaced', 'Role', 'agent-stacks'),
    observe: findAgentRules('observe', 'ClusterRole', 'agent'),
  },
  crds: {},
}

const pipelineRules = Object.fromEntries(
  rbacManifests().flatMap((role) =>
    role.kind.endsWith('Role') ? [[`${role.kind}/${role.metadata.name}`, role['rules'] as readonly PolicyRule[]] as const] : [],
  ),
)
interface PolicyRule {
  readonly resources: readonly string[]
}
const isForSecrets = ({ resources }: PolicyRule): boolean => resources.includes('secrets')
const controllerRules = pipelineRules['ClusterRole/brokkr-pipelines']!
const roleNames = ['observe-flux', 'observe-argo', 'observe-apps', 'viewer', 'editor', 'approver', 'promoter']

const pipelines: Chart = {
  name: 'brokkr-pipelines',
  description: 'The pipelines controller of Brokkr: promotes revisions between environments',
  values: {
    ...buildCommonValues({
      program: 'pipelines',
      replicas: 2,
      resources: limits('50m', '128Mi', '500m', '512Mi'),
      monitor: 'podMonitor',
      hasRules: false,
      egress: [tcp(443, 6443, 3000)],
      egressText: `Default: Git, forges, API servers of all clusters and the broker. ${kubeApi}`,
    }),
    config: buildConfigValue(pipelinesTable, managedSettings.pipelines),
    ...buildSecretValues(pipelinesTable, []),
    rbac: {
      secrets: choice('all: reads Secrets of all namespaces. named: only those of secretNames.', ['all', 'named'], 'all'),
      secretNames: shaped(
        'With rbac.secrets named: Secrets that Pipelines and clusters refer to.',
        {
          type: 'array',
          items: {
            type: 'object',
            additionalProperties: false,
            required: ['namespace', 'names'],
            properties: {
              namespace: { type: 'string', minLength: 1 },
              names: { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } },
            },
          },
        },
        [],
      ),
    },
    tls: { existingSecret: text('Secret with tls.crt and tls.key of the hooks; without it they are plain HTTP in the cluster.') },
    gitCache: { sizeLimit: text('Size limit of the volume with cache repositories.', '10Gi') },
    ingress: ingressValues,
    crds: crdValues,
  },
  rules: {
    controller: controllerRules.filter((rule) => !isForSecrets(rule)),
    secrets: controllerRules.filter(isForSecrets),
    own: pipelineRules['Role/brokkr-pipelines']!,
    ...Object.fromEntries(roleNames.map((name) => [name, pipelineRules[`ClusterRole/brokkr-pipelines-${name}`]!])),
  },
  crds: { 'pipelines.yaml': pipelineCrd(), 'promotions.yaml': promotionCrd() },
}

const dataflow: Chart = {
  name: 'brokkr-dataflow',
  description: 'The data-flow operator of Brokkr: turns DataFlow objects into running processors',
  values: {
    ...buildCommonValues({
      program: 'dataflow-operator',
      replicas: 2,
      resources: limits('100m', '128Mi', '500m', '512Mi'),
      monitor: 'podMonitor',
      hasRules: false,
      egress: [tcp(443, 6443), tcp(9090), tcp(5432)],
      egressText: `Default: API server, progress of processors on 9090, PostgreSQL for replication slots that are dropped with a flow. ${kubeApi}`,
    }),
    config: buildEnvironmentValue(operatorTable, managedSettings.dataflow),
    watchNamespaces: namespaceList('Namespaces whose flows are handled, with Roles in each. Empty: all, with a ClusterRole.'),
    processor: {
      image: imageValues('brokkr/dataflow-processor'),
      egressCidrs: shaped(
        'Networks of sources and sinks: with watchNamespaces, processors reach nothing else but DNS and, for the API server, ports 443 and 6443 of any address.',
        { type: 'array', uniqueItems: true, items: { type: 'string', pattern: '^[0-9a-fA-F.:]+/[0-9]{1,3}$' } },
        [],
      ),
    },
    webhook: {
      enabled: flag('Serves the admission webhook: wrong flows are refused when they are written.', false),
      certs: choice('Who makes the certificate: the operator, cert-manager, or you.', ['self', 'cert-manager', 'provided'], 'self'),
      issuerRef: object('With cert-manager: issuer of the certificate; default: a self-signed one.'),
      existingSecret: text('With provided: Secret with tls.crt and tls.key.'),
      caBundle: text('With provided: PEM of the CA.'),
      timeoutSeconds: number('Time limit of a call.', 5, 1, 30),
    },
    crds: crdValues,
  },
  rules: buildOperatorRules('{{ include `brokkr.fullname` . }}-webhook'),
  crds: { 'dataflows.yaml': dataFlowCrd(), 'dataflowcrons.yaml': dataFlowCronCrd() },
}

export const charts: readonly Chart[] = [broker, agent, pipelines, dataflow]
