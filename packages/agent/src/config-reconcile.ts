// The settings of reconcile, drift and health, as part of the agent's table, and what follows from them for a stack.
import { type ConfigOf, count, optional, seconds, setting } from '@brokkr/runtime/config-table.ts'
import { z } from 'zod'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { publicKey } from './reconcile/signature.ts'

const interval = seconds.min(0.01)
const parallel = count.min(1).max(1000)
const namespace = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')
const grant = z.enum(['clusterScoped', 'rbac', 'podSecurity'])
const account = z.string().regex(/^[a-z0-9.-]+\/[a-z0-9.-]+$/, 'must be a ServiceAccount as namespace/name')
const hot = { hot: true }

export const reconcileTable = {
  apply_concurrency: setting(parallel, 8, hot),
  dry_run: setting(z.boolean(), true, hot),
  field_validation: setting(z.enum(['Strict', 'Warn', 'Ignore']), 'Strict', hot),
  crd_wait_seconds: setting(interval, 60),
  /** How long one look waits for what is being deleted. */
  gone_wait_seconds: setting(interval, 5),
  drift_fight_seconds: setting(interval, 600, hot),
  resync_interval: setting(interval, 600, hot),
  verify_interval: setting(interval, 3600, hot),
  watch_namespace: optional(namespace),
  allowed_namespaces: setting(z.array(namespace), [], hot),
  denied_kinds: setting(z.array(z.string().min(1)), [], hot),
  /** What the agent was given rights for; `observe` looks and tells, and writes nothing. */
  preset: setting(z.enum(['standard', 'namespaced', 'cluster-admin', 'observe']), 'standard'),
  /** Where no stack may write, beside the agent's own namespace. */
  protected_namespaces: setting(z.array(namespace), [], hot),
  /** Generator, by id or name → what its stacks may write beyond ordinary objects of a namespace. */
  grants: setting(z.record(z.string(), z.array(grant)), {}),
  /** Generator, by id or name → the ServiceAccount that acts for its stacks. */
  identities: setting(z.record(z.string(), account), {}),
  identities_required: setting(z.boolean(), false),
  require_signatures: setting(z.boolean(), false),
  signature_keys: setting(z.record(z.string(), z.string()), {}),
  adoption: setting(z.enum(['unowned', 'never', 'any']), 'unowned'),
  adopt_from_agent_ids: setting(z.array(z.string().min(1)), []),
  prune_guard_count: setting(count, 5, hot),
  prune_guard_percent: setting(z.number().min(0).max(100), 20, hot),
  deployment_health_enabled: setting(z.boolean(), true, hot),
  deployment_health_interval: setting(interval, 60, hot),
}
export type ReconcileConfig = ConfigOf<typeof reconcileTable>

export function checkReconcileConfig(agent: ReconcileConfig): { path: string; problem: string }[] {
  const keys = Object.entries(agent.signature_keys).flatMap(([id, text]) => {
    try {
      publicKey(text)
      return []
    } catch {
      return [{ path: `agent.signature_keys.${id}`, problem: 'must be an Ed25519 public key, as PEM or as the base64 of its 32 bytes' }]
    }
  })
  if (agent.require_signatures && Object.keys(agent.signature_keys).length === 0)
    keys.push({
      path: 'agent.signature_keys',
      problem: 'is empty while agent.require_signatures asks for signatures: nothing could be applied',
    })
  return keys
}

/** `own` is the agent's namespace. */
export const reconcileSettings = (agent: ReconcileConfig, own: string): ReconcileDeps['settings'] => ({
  policy: {
    allowedNamespaces: agent.allowed_namespaces,
    watchNamespace: agent.watch_namespace,
    protectedNamespaces: [own, ...agent.protected_namespaces],
    deniedKinds: agent.denied_kinds,
  },
  tenants: { grants: agent.grants, identities: agent.identities, identitiesRequired: agent.identities_required },
  signatures: { isRequired: agent.require_signatures, keys: agent.signature_keys },
  defaultNamespace: agent.watch_namespace ?? 'default',
  pruneGuard: { count: agent.prune_guard_count, percent: agent.prune_guard_percent },
  adoption: agent.adoption,
  adoptFrom: agent.adopt_from_agent_ids,
  applyConcurrency: agent.apply_concurrency,
  dryRun: agent.dry_run,
  fieldValidation: agent.field_validation,
  crdWaitMs: agent.crd_wait_seconds * 1000,
  goneWaitMs: agent.gone_wait_seconds * 1000,
})
