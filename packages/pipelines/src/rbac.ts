// Rights of the program and of its users, as one table. manifests/rbac.yaml is generated from it; a test compares them.
import type { KubeObject } from '@brokkr/kube'
import { stringify } from 'yaml'

interface Rule {
  readonly groups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly names?: readonly string[]
}

const NAME = 'brokkr-pipelines'
const NAMESPACE = 'brokkr-system'
const OBSERVE_LABEL = 'pipelines.brokkr.io/observe'
const PIPELINES = 'pipelines.weave.works'
const PROMOTIONS = 'pipelines.brokkr.io'
const READ = ['get', 'list', 'watch']
const rule = (groups: string[], resources: string[], verbs: string[], names?: string[]): Rule => ({
  groups,
  resources,
  verbs,
  ...(names === undefined ? {} : { names }),
})

/** Management cluster, every namespace. Secrets are read by name, so Roles with resourceNames may replace that rule. */
const controllerRules: readonly Rule[] = [
  rule([PIPELINES], ['pipelines'], [...READ, 'patch']),
  rule([PIPELINES], ['pipelines/status'], ['patch']),
  rule([PROMOTIONS], ['promotions'], [...READ, 'create', 'patch', 'update', 'delete']),
  rule([PROMOTIONS], ['promotions/status'], ['patch']),
  rule(['gitops.weave.works'], ['gitopsclusters'], READ),
  rule([''], ['secrets'], READ),
  rule([''], ['events'], ['create', 'patch']),
  rule(['authentication.k8s.io'], ['tokenreviews'], ['create']),
  rule(['authorization.k8s.io'], ['subjectaccessreviews'], ['create']),
  rule(['apiextensions.k8s.io'], ['customresourcedefinitions'], ['get'], [`pipelines.${PIPELINES}`, `promotions.${PROMOTIONS}`]),
]

/** The program's own namespace. */
const ownRules: readonly Rule[] = [
  rule(['coordination.k8s.io'], ['leases'], ['get', 'create', 'update', 'patch']),
  rule([''], ['configmaps'], ['get', 'create', 'patch']),
]

/** Application kinds, added to the controller's role by label: other kinds need one more ClusterRole with that label. */
const appRules: Readonly<Record<string, Rule>> = {
  flux: rule(['helm.toolkit.fluxcd.io', 'kustomize.toolkit.fluxcd.io'], ['helmreleases', 'kustomizations'], READ),
  argo: rule(['argoproj.io'], ['applications'], READ),
  apps: rule(['apps'], ['deployments', 'statefulsets', 'daemonsets'], READ),
}

/** Roles for people. Only the controller writes promotions/status. */
const userRules: Readonly<Record<string, readonly Rule[]>> = {
  viewer: [rule([PIPELINES], ['pipelines'], READ), rule([PROMOTIONS], ['promotions'], READ)],
  editor: [rule([PIPELINES], ['pipelines'], [...READ, 'create', 'update', 'patch', 'delete']), rule([PROMOTIONS], ['promotions'], READ)],
  approver: [rule([PROMOTIONS], ['promotions'], [...READ, 'approve']), rule([PIPELINES], ['pipelines'], READ)],
  promoter: [rule([PIPELINES], ['pipelines'], [...READ, 'promote']), rule([PROMOTIONS], ['promotions'], READ)],
}

export function rbacManifests(): KubeObject[] {
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: NAME, namespace: NAMESPACE } },
    role('ClusterRole', { name: NAME }, controllerRules),
    ...Object.entries(appRules).map(([kind, rules]) =>
      role('ClusterRole', { name: `${NAME}-observe-${kind}`, labels: { [OBSERVE_LABEL]: 'true' } }, [rules]),
    ),
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: `${NAME}-observe` },
      aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [OBSERVE_LABEL]: 'true' } }] },
      rules: [],
    },
    role('Role', { name: NAME, namespace: NAMESPACE }, ownRules),
    binding('ClusterRoleBinding', { name: NAME }, 'ClusterRole', NAME),
    binding('ClusterRoleBinding', { name: `${NAME}-observe` }, 'ClusterRole', `${NAME}-observe`),
    binding('RoleBinding', { name: NAME, namespace: NAMESPACE }, 'Role', NAME),
    ...Object.entries(userRules).map(([user, rules]) => role('ClusterRole', { name: `${NAME}-${user}` }, rules)),
  ]
}

export const rbacText = (): string =>
  `# Generated from packages/pipelines/src/rbac.ts.\n${rbacManifests()
    .map((object) => stringify(object, { aliasDuplicateObjects: false }))
    .join('---\n')}`

function role(kind: 'ClusterRole' | 'Role', metadata: KubeObject['metadata'], rules: readonly Rule[]): KubeObject {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind,
    metadata,
    rules: rules.map(({ groups, resources, verbs, names }) => ({
      apiGroups: groups,
      resources,
      verbs,
      ...(names === undefined ? {} : { resourceNames: names }),
    })),
  }
}

const binding = (kind: string, metadata: KubeObject['metadata'], roleKind: string, roleName: string): KubeObject => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind,
  metadata,
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: roleKind, name: roleName },
  subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: NAMESPACE }],
})
