// Rights of the operator, as one table. manifests/rbac.yaml is generated from it, and a test runs the operator with them.

interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly resourceNames?: readonly string[]
}

const group = 'dataflow.dataflow.io'
const read = ['get', 'list', 'watch']
const full = [...read, 'create', 'update', 'patch', 'delete']
const rule = (apiGroups: string[], resources: string[], verbs: string[]): Rule => ({ apiGroups, resources, verbs })

/** In the namespaces of flows. The operator holds every right that it grants to processors. */
const flowRules: readonly Rule[] = [
  rule([group], ['dataflows', 'dataflowcrons'], [...read, 'update', 'patch']),
  rule([group], ['dataflows/status', 'dataflowcrons/status'], ['get', 'update', 'patch']),
  rule([group], ['dataflows/finalizers', 'dataflowcrons/finalizers'], ['update']),
  rule([''], ['secrets', 'configmaps', 'serviceaccounts', 'services'], full),
  rule([''], ['events'], ['create', 'patch']),
  rule([''], ['pods'], read),
  rule(['apps'], ['deployments'], full),
  rule(['apps'], ['deployments/finalizers'], ['update']),
  rule(['batch'], ['jobs', 'cronjobs'], full),
  rule(['batch'], ['jobs/finalizers', 'cronjobs/finalizers'], ['update']),
  rule(['rbac.authorization.k8s.io'], ['roles', 'rolebindings'], full),
  rule(['monitoring.coreos.com'], ['podmonitors'], full),
]

/** In the operator's own namespace: the Lease and its Deployment. */
const ownRules: readonly Rule[] = [
  rule(['coordination.k8s.io'], ['leases'], ['get', 'create', 'update']),
  rule(['apps'], ['deployments'], read),
]

/** By the place where they hold; the chart has them as roles. `webhook` is the name of the Secret and of the configuration. */
export const buildOperatorRules = (webhook: string) => ({
  flows: flowRules,
  own: ownRules,
  /** In the own namespace, for certificates that the operator makes. A name cannot limit the creation. */
  certificates: [
    rule([''], ['secrets'], ['create']),
    { ...rule([''], ['secrets'], ['get', 'update']), resourceNames: [webhook] },
  ] satisfies readonly Rule[],
  /** For the caBundle in the configuration of the webhook. */
  webhook: [
    { ...rule(['admissionregistration.k8s.io'], ['validatingwebhookconfigurations'], ['get', 'patch']), resourceNames: [webhook] },
  ] satisfies readonly Rule[],
})

const name = 'brokkr-dataflow-operator'
const namespace = 'brokkr-system'
/** Default of WEBHOOK_SERVICE_NAME and WEBHOOK_CONFIGURATION_NAME. */
const webhookName = 'dataflow-operator-webhook'
const rbacVersion = 'rbac.authorization.k8s.io/v1'

/** For an operator that handles all namespaces. */
export function rbacManifests(): readonly object[] {
  const rules = buildOperatorRules(webhookName)
  const subjects = [{ kind: 'ServiceAccount', name, namespace }]
  const refTo = (kind: string) => ({ apiGroup: 'rbac.authorization.k8s.io', kind, name })
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
    { apiVersion: rbacVersion, kind: 'ClusterRole', metadata: { name }, rules: [...rules.flows, ...rules.webhook] },
    { apiVersion: rbacVersion, kind: 'ClusterRoleBinding', metadata: { name }, roleRef: refTo('ClusterRole'), subjects },
    { apiVersion: rbacVersion, kind: 'Role', metadata: { name, namespace }, rules: [...rules.own, ...rules.certificates] },
    { apiVersion: rbacVersion, kind: 'RoleBinding', metadata: { name, namespace }, roleRef: refTo('Role'), subjects },
  ]
}
