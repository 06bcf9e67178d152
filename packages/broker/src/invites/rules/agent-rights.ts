// RBAC objects of an agent by preset. No rule grants all resources of all groups, escalate, bind, impersonate or writes to RBAC; the preset
// cluster-admin binds the existing role. Pure.
import type { Preset } from '@brokkr/contract/invites/agent-invite.ts'
import type { JsonObject } from '@brokkr/contract/manifest/json-text.ts'

export interface AgentAccount {
  readonly preset: Preset
  /** For the preset `namespaced`. */
  readonly namespaces: readonly string[]
  /** Namespace of the agent, with its Lease and Secrets. */
  readonly own: string
  readonly account: string
}
interface PolicyRule {
  readonly apiGroups: string[]
  readonly resources: string[]
  readonly verbs: string[]
  readonly resourceNames?: string[]
}

const readVerbs = ['get', 'list', 'watch']
const write = [...readVerbs, 'create', 'patch', 'delete']

/** Includes Secrets, because stacks contain Secrets. */
const workloads: readonly (readonly [group: string, resources: string])[] = [
  [
    '',
    'configmaps secrets services endpoints serviceaccounts persistentvolumeclaims pods replicationcontrollers limitranges resourcequotas',
  ],
  ['apps', 'deployments statefulsets daemonsets replicasets'],
  ['batch', 'jobs cronjobs'],
  ['autoscaling', 'horizontalpodautoscalers'],
  ['networking.k8s.io', 'ingresses networkpolicies'],
  ['policy', 'poddisruptionbudgets'],
  ['discovery.k8s.io', 'endpointslices'],
  // Delivered like workloads, and steered by work orders.
  ['dataflow.dataflow.io', 'dataflows dataflowcrons'],
]
const wholeCluster: readonly (readonly [group: string, resources: string])[] = [
  ['', 'namespaces'],
  ['apiextensions.k8s.io', 'customresourcedefinitions'],
]
/** Read-only resources for events and logs of workloads. */
const observedRules: readonly PolicyRule[] = [
  { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: readVerbs },
  { apiGroups: [''], resources: ['pods/log'], verbs: ['get'] },
]
const buildRules = (kinds: typeof workloads, verbs: string[]): PolicyRule[] =>
  kinds.map(([group, resources]) => ({ apiGroups: [group], resources: resources.split(' '), verbs }))
const withoutSecrets = workloads.map(([group, resources]) => [group, resources.replace('secrets ', '')] as const)

export const buildAgentRights = (agent: AgentAccount): JsonObject[] => [...buildBaseRights(agent), ...presets[agent.preset](agent)]

/** For every preset: the agent's Lease and Secrets, and the UID of kube-system, which identifies the cluster. */
function buildBaseRights(agent: AgentAccount): JsonObject[] {
  const baseRules: PolicyRule[] = [
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update', 'patch'] },
    { apiGroups: [''], resources: ['secrets'], verbs: [...write, 'update'] },
  ]
  const identityRule: PolicyRule = { apiGroups: [''], resources: ['namespaces'], resourceNames: ['kube-system', agent.own], verbs: ['get'] }
  return [
    ...buildNamespacedRole(agent, { namespace: agent.own, name: agent.account }, baseRules),
    ...buildClusterRole(agent, `${agent.account}-identity`, [identityRule]),
  ]
}

const presets: Readonly<Record<Preset, (agent: AgentAccount) => JsonObject[]>> = {
  standard: (agent) => buildClusterRole(agent, agent.account, [...buildRules([...workloads, ...wholeCluster], write), ...observedRules]),
  namespaced: (agent) =>
    agent.namespaces.flatMap((namespace) =>
      buildNamespacedRole(agent, { namespace, name: `${agent.account}-stacks` }, [...buildRules(workloads, write), ...observedRules]),
    ),
  'cluster-admin': (agent) => [binding(agent, `${agent.account}-cluster-admin`, 'cluster-admin')],
  observe: (agent) =>
    buildClusterRole(agent, agent.account, [...buildRules([...withoutSecrets, ...wholeCluster], readVerbs), ...observedRules]),
}

const group = 'rbac.authorization.k8s.io'
const apiVersion = `${group}/v1`
const subjects = ({ account, own }: AgentAccount): JsonObject[] => [{ kind: 'ServiceAccount', name: account, namespace: own }]

const buildClusterRole = (agent: AgentAccount, name: string, rules: readonly PolicyRule[]): JsonObject[] => [
  { apiVersion, kind: 'ClusterRole', metadata: { name }, rules: rules as unknown as JsonObject[] },
  binding(agent, name, name),
]

const binding = (agent: AgentAccount, name: string, role: string): JsonObject => ({
  apiVersion,
  kind: 'ClusterRoleBinding',
  metadata: { name },
  roleRef: { apiGroup: group, kind: 'ClusterRole', name: role },
  subjects: subjects(agent),
})

const buildNamespacedRole = (
  agent: AgentAccount,
  metadata: { namespace: string; name: string },
  rules: readonly PolicyRule[],
): JsonObject[] => [
  { apiVersion, kind: 'Role', metadata, rules: rules as unknown as JsonObject[] },
  { apiVersion, kind: 'RoleBinding', metadata, roleRef: { apiGroup: group, kind: 'Role', name: metadata.name }, subjects: subjects(agent) },
]
