// What this cluster allows, whatever the broker asks for: decided here, before any request is made. Pure. The broker may narrow
// it, never widen it.
import { describeRef, groupKindOf, groupKindText, groupOf, type KubeObject, refOf } from '@brokkr/kube/object.ts'

/** What a tenant must be given by name before its stacks may write it. */
export type Grant = 'clusterScoped' | 'rbac' | 'podSecurity'
export const allGrants: readonly Grant[] = ['clusterScoped', 'rbac', 'podSecurity']

export interface Policy {
  /** Empty: everywhere but in the protected ones. */
  readonly allowedNamespaces: readonly string[]
  /** Everything is limited to this one; null: no such limit. */
  readonly watchNamespace: string | null
  /** Nobody's manifest may write there; the agent's own is one of them, because the inventories of all stacks live in it. */
  readonly protectedNamespaces: readonly string[]
  /** `Kind.group`, or `Kind` for the core group. */
  readonly deniedKinds: readonly string[]
}
export interface Refusal {
  readonly code: 'outside_scope' | 'policy_denied'
  readonly message: string
}

/** The namespaces that may be touched at all, also by reads; null: all but the protected ones. */
export function namespacesOf({ allowedNamespaces, watchNamespace, protectedNamespaces }: Policy): readonly string[] | null {
  if (watchNamespace === null && allowedNamespaces.length === 0) return null
  const named = watchNamespace === null ? allowedNamespaces : allowedNamespaces.length === 0 ? [watchNamespace] : allowedNamespaces
  return named.filter((name) => !protectedNamespaces.includes(name) && (watchNamespace === null || name === watchNamespace))
}

/** Whether something that lives in this namespace may be read or written; '' stands for what lives in none. */
export function isInScope(namespace: string, policy: Policy): boolean {
  const only = namespacesOf(policy)
  return only === null ? !policy.protectedNamespaces.includes(namespace) : only.includes(namespace)
}

export function refuse(object: KubeObject, policy: Policy, scope: 'namespaced' | 'cluster' | undefined): Refusal | null {
  const what = describeRef(refOf(object))
  const kind = groupKindText(groupKindOf(object))
  const outside = (why: string): Refusal => ({ code: 'outside_scope', message: `${what}: ${why}` })
  if (policy.deniedKinds.includes(kind))
    return { code: 'policy_denied', message: `${what}: this cluster's agent does not write ${kind} (denied_kinds)` }
  const namespace = kind === 'Namespace' ? object.metadata.name : object.metadata.namespace
  const only = namespacesOf(policy)
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
/** Cluster-scoped wherever they are known; listed so that they are refused also while nobody can tell their scope. */
const mighty: ReadonlySet<string> = new Set(['apiextensions.k8s.io', 'admissionregistration.k8s.io', 'apiregistration.k8s.io'])

export function grantsNeeded(object: KubeObject, scope: 'namespaced' | 'cluster' | undefined): Grant[] {
  const group = groupOf(object.apiVersion)
  const isNamespace = object.kind === 'Namespace' && group === ''
  const needs: Grant[] = []
  if (!isNamespace && (scope === 'cluster' || mighty.has(group))) needs.push('clusterScoped')
  if (group === rbacGroup) needs.push('rbac')
  if (Object.keys(object.metadata.labels ?? {}).some((key) => key.startsWith(podSecurityLabel))) needs.push('podSecurity')
  return needs
}

export function denied(object: KubeObject, missing: readonly Grant[], generator: string): Refusal {
  return {
    code: 'policy_denied',
    message: `${describeRef(refOf(object))}: generator ${generator} has not been granted ${missing.join(', ')} in this cluster (agent.grants)`,
  }
}
