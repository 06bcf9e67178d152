// What this cluster allows, whatever the broker asks for: decided here, before any request is made. Pure. The broker may narrow
// it, never widen it.
import { describeRef, groupKindOf, groupKindText, type KubeObject, refOf } from '@brokkr/kube/object.ts'

export interface Policy {
  /** Empty: everywhere but in the protected ones. */
  readonly allowedNamespaces: readonly string[]
  /** Nobody's manifest may write there; the agent's own is one of them, because the inventories of all stacks live in it. */
  readonly protectedNamespaces: readonly string[]
  /** `Kind.group`, or `Kind` for the core group. */
  readonly deniedKinds: readonly string[]
}
export interface Refusal {
  readonly code: 'outside_scope' | 'policy_denied'
  readonly message: string
}

export function refuse(object: KubeObject, policy: Policy): Refusal | null {
  const what = describeRef(refOf(object))
  const kind = groupKindText(groupKindOf(object))
  if (policy.deniedKinds.includes(kind))
    return { code: 'policy_denied', message: `${what}: this cluster's agent does not write ${kind} (denied_kinds)` }
  const namespace = kind === 'Namespace' ? object.metadata.name : object.metadata.namespace
  if (namespace === undefined) return null
  if (policy.protectedNamespaces.includes(namespace))
    return { code: 'outside_scope', message: `${what}: namespace ${namespace} is protected (protected_namespaces); choose another one` }
  if (policy.allowedNamespaces.length === 0 || policy.allowedNamespaces.includes(namespace)) return null
  return {
    code: 'outside_scope',
    message: `${what}: this cluster's agent writes only to ${policy.allowedNamespaces.join(', ')} (allowed_namespaces)`,
  }
}
