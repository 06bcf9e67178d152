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

export function agentRights(of: RightsOf): JsonObject[] {
  const { own, account } = of
  return [...ownRights(of), ...presets[of.preset](of)].map((object) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    ...object(own, account),
  }))
}

type Part = (own: string, account: string) => JsonObject

/** Whatever the preset: its Lease, its Secrets, and the UID of kube-system, by which a cluster is known. */
function ownRights({ own, account }: RightsOf): Part[] {
  const kept: PolicyRule[] = [
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update', 'patch'] },
    { apiGroups: [''], resources: ['secrets'], verbs: [...write, 'update'] },
  ]
  const known: PolicyRule = { apiGroups: [''], resources: ['namespaces'], resourceNames: ['kube-system', own], verbs: ['get'] }
  return [...inNamespace(own, account, kept), ...inCluster(`${account}-identity`, [known])]
}

const presets: Readonly<Record<Preset, (of: RightsOf) => Part[]>> = {
  standard: ({ account }) => inCluster(account, [...rulesOf([...workloads, ...wholeCluster], write), ...told]),
  namespaced: ({ account, namespaces }) =>
    namespaces.flatMap((namespace) => inNamespace(namespace, `${account}-stacks`, [...rulesOf(workloads, write), ...told])),
  'cluster-admin': ({ account }) => [binding(`${account}-cluster-admin`, 'cluster-admin')],
  observe: ({ account }) => inCluster(account, [...rulesOf([...withoutSecrets, ...wholeCluster], read), ...told]),
}

function inCluster(name: string, rules: readonly PolicyRule[]): Part[] {
  return [() => ({ kind: 'ClusterRole', metadata: { name }, rules: rules as unknown as JsonObject[] }), binding(name, name)]
}

const subjects = (own: string, account: string): JsonObject[] => [{ kind: 'ServiceAccount', name: account, namespace: own }]
const roleRef = (kind: string, name: string): JsonObject => ({ apiGroup: 'rbac.authorization.k8s.io', kind, name })

const binding =
  (name: string, role: string): Part =>
  (own, account) => ({
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: roleRef('ClusterRole', role),
    subjects: subjects(own, account),
  })

function inNamespace(namespace: string, name: string, rules: readonly PolicyRule[]): Part[] {
  const metadata = { name, namespace }
  return [
    () => ({ kind: 'Role', metadata, rules: rules as unknown as JsonObject[] }),
    (own, account) => ({ kind: 'RoleBinding', metadata, roleRef: roleRef('Role', name), subjects: subjects(own, account) }),
  ]
}
