// What an agent may do in its cluster, by preset: the objects of RBAC that say so. No rule holds everything of every group, none may
// escalate, bind or impersonate, and none writes RBAC. Pure.
import type { Preset } from '@brokkr/contract/agent-invite.ts'
import type { JsonObject } from '@brokkr/contract/json-text.ts'

export interface RightsOf {
  readonly preset: Preset
  /** Of the preset `namespaced`. */
  readonly namespaces: readonly string[]
  /** The agent's own, where its Lease and its Secrets are. */
  readonly own: string
  readonly account: string
}
interface PolicyRule {
  readonly apiGroups: string[]
  readonly resources: string[]
  readonly verbs: string[]
  readonly resourceNames?: string[]
}

const read = ['get', 'list', 'watch']
const write = [...read, 'create', 'patch', 'delete']

/** Secrets among them: stacks bring their own. */
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
]
const wholeCluster: readonly (readonly [group: string, resources: string])[] = [
  ['', 'namespaces'],
  ['apiextensions.k8s.io', 'customresourcedefinitions'],
]
/** What is told of workloads and never written. */
const told: readonly PolicyRule[] = [
  { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: read },
  { apiGroups: [''], resources: ['pods/log'], verbs: ['get'] },
]
const rulesOf = (kinds: typeof workloads, verbs: string[]): PolicyRule[] =>
  kinds.map(([group, resources]) => ({ apiGroups: [group], resources: resources.split(' '), verbs }))
const withoutSecrets = workloads.map(([group, resources]) => [group, resources.replace('secrets ', '')] as const)

export const agentRights = (of: RightsOf): JsonObject[] => [...ownRights(of), ...presets[of.preset](of)]

/** Whatever the preset: its Lease, its Secrets, and the UID of kube-system, by which a cluster is known. */
function ownRights(of: RightsOf): JsonObject[] {
  const kept: PolicyRule[] = [
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update', 'patch'] },
    { apiGroups: [''], resources: ['secrets'], verbs: [...write, 'update'] },
  ]
  const known: PolicyRule = { apiGroups: [''], resources: ['namespaces'], resourceNames: ['kube-system', of.own], verbs: ['get'] }
  return [...inNamespace(of, { namespace: of.own, name: of.account }, kept), ...inCluster(of, `${of.account}-identity`, [known])]
}

const presets: Readonly<Record<Preset, (of: RightsOf) => JsonObject[]>> = {
  standard: (of) => inCluster(of, of.account, [...rulesOf([...workloads, ...wholeCluster], write), ...told]),
  namespaced: (of) =>
    of.namespaces.flatMap((namespace) =>
      inNamespace(of, { namespace, name: `${of.account}-stacks` }, [...rulesOf(workloads, write), ...told]),
    ),
  'cluster-admin': (of) => [binding(of, `${of.account}-cluster-admin`, 'cluster-admin')],
  observe: (of) => inCluster(of, of.account, [...rulesOf([...withoutSecrets, ...wholeCluster], read), ...told]),
}

const group = 'rbac.authorization.k8s.io'
const apiVersion = `${group}/v1`
const subjects = ({ account, own }: RightsOf): JsonObject[] => [{ kind: 'ServiceAccount', name: account, namespace: own }]

const inCluster = (of: RightsOf, name: string, rules: readonly PolicyRule[]): JsonObject[] => [
  { apiVersion, kind: 'ClusterRole', metadata: { name }, rules: rules as unknown as JsonObject[] },
  binding(of, name, name),
]

const binding = (of: RightsOf, name: string, role: string): JsonObject => ({
  apiVersion,
  kind: 'ClusterRoleBinding',
  metadata: { name },
  roleRef: { apiGroup: group, kind: 'ClusterRole', name: role },
  subjects: subjects(of),
})

const inNamespace = (of: RightsOf, metadata: { namespace: string; name: string }, rules: readonly PolicyRule[]): JsonObject[] => [
  { apiVersion, kind: 'Role', metadata, rules: rules as unknown as JsonObject[] },
  { apiVersion, kind: 'RoleBinding', metadata, roleRef: { apiGroup: group, kind: 'Role', name: metadata.name }, subjects: subjects(of) },
]
