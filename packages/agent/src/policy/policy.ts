// Local policy of this cluster. Checked before any request, for everything that the broker sends. Pure. The broker can narrow it, never
// widen it.
import { describeRef, groupKindOf, groupKindText, groupOf, type KubeObject, refOf } from '@brokkr/kube'

/** Rights that a generator needs by name. */
export type Grant = 'clusterScoped' | 'rbac' | 'podSecurity'
export const allGrants: readonly Grant[] = ['clusterScoped', 'rbac', 'podSecurity']

export interface Policy {
  /** Empty: all but the protected ones. */
  readonly allowedNamespaces: readonly string[]
  /** Limits everything to this namespace; null: no limit. */
  readonly watchNamespace: string | null
  /** No stack may write there. Contains the agent's own namespace with the inventories of all stacks. */
  readonly protectedNamespaces: readonly string[]
  /** `Kind.group`, or `Kind` for the core group. */
  readonly deniedKinds: readonly string[]
}
export interface Refusal {
  readonly code: 'outside_scope' | 'policy_denied'
  readonly message: string
}

/** Namespaces that may be read and written; null: all but the protected ones. */
export function listAllowedNamespaces({ allowedNamespaces, watchNamespace, protectedNamespaces }: Policy): readonly string[] | null {
  if (watchNamespace === null && allowedNamespaces.length === 0) return null
  const namespaces = watchNamespace === null ? allowedNamespaces : allowedNamespaces.length === 0 ? [watchNamespace] : allowedNamespaces
  return namespaces.filter((name) => !protectedNamespaces.includes(name) && (watchNamespace === null || name === watchNamespace))
}

/** Whether objects of this namespace may be read or written; '' means cluster-scoped. */
export function isInScope(namespace: string, policy: Policy): boolean {
  const only = listAllowedNamespaces(policy)
  return only === null ? !policy.protectedNamespaces.includes(namespace) : only.includes(namespace)
}

export function findPolicyRefusal(object: KubeObject, policy: Policy, scope: 'namespaced' | 'cluster' | undefined): Refusal | null {
  const what = describeRef(refOf(object))
  const kind = groupKindText(groupKindOf(object))
  const outside = (why: string): Refusal => ({ code: 'outside_scope', message: `${what}: ${why}` })
  if (policy.deniedKinds.includes(kind))
    return { code: 'policy_denied', message: `${what}: this cluster's agent does not write ${kind} (denied_kinds)` }
  const namespace = kind === 'Namespace' ? object.metadata.name : object.metadata.namespace
  const only = listAllowedNamespaces(policy)
  if (namespace === undefined)
    return only === null || scope !== 'cluster'
      ? null
      : outside(`it belongs to no namespace, and this cluster's agent writes only to ${list(only)} (allowed_namespaces, watch_namespace)`)
  if (policy.protectedNamespaces.includes(namespace))
    return outside(`namespace ${namespace} is protected (protected_namespaces); choose another one`)
  if (only === null || only.includes(namespace)) return null
  return outside(`this cluster's agent writes only to ${list(only)} (allowed_namespaces, watch_namespace)`)
}

const list = (names: readonly string[]): string => names.join(', ') || 'no namespace'

const podSecurityLabel = 'pod-security.kubernetes.io/'
const rbacGroup = 'rbac.authorization.k8s.io'
/** Cluster-scoped groups, refused also while the scope of the kind is unknown. */
const clusterScopedGroups: ReadonlySet<string> = new Set(['apiextensions.k8s.io', 'admissionregistration.k8s.io', 'apiregistration.k8s.io'])

export function grantsNeeded(object: KubeObject, scope: 'namespaced' | 'cluster' | undefined): Grant[] {
  const group = groupOf(object.apiVersion)
  const isNamespace = object.kind === 'Namespace' && group === ''
  const needs: Grant[] = []
  if (!isNamespace && (scope === 'cluster' || clusterScopedGroups.has(group))) needs.push('clusterScoped')
  if (group === rbacGroup) needs.push('rbac')
  if (Object.keys(object.metadata.labels ?? {}).some((key) => key.startsWith(podSecurityLabel))) needs.push('podSecurity')
  return needs
}

export function toGrantRefusal(object: KubeObject, missing: readonly Grant[], generator: string): Refusal {
  return {
    code: 'policy_denied',
    message: `${describeRef(refOf(object))}: generator ${generator} has not been granted ${missing.join(', ')} in this cluster (agent.grants)`,
  }
}
