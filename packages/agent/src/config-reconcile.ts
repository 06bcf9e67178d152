// Settings of reconcile, drift detection and health.
import { type ConfigOf, count, optional, seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { parsePublicKey } from './reconcile/plan/signature.ts'
import { workOrdersGenerator } from './reconcile/stack-generators.ts'

const interval = seconds.min(0.01)
const parallel = count.min(1).max(1000)
const namespace = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')
const grant = z.enum(['clusterScoped', 'rbac', 'podSecurity'])
const account = z.string().regex(/^[a-z0-9.-]+\/[a-z0-9.-]+$/, 'must be a ServiceAccount as namespace/name')

export const reconcileTable = {
  apply_concurrency: setting(parallel, 8, {
    description: 'Maximum number of objects of one stack that are applied at the same time.',
    unit: 'objects',
    hot: true,
  }),
  dry_run: setting(z.boolean(), true, {
    description: 'Checks all objects of a stack by a server-side dry run before the first write.',
    hot: true,
  }),
  field_validation: setting(z.enum(['Strict', 'Warn', 'Ignore']), 'Strict', {
    description: 'Field validation of the API server for applied objects: Strict rejects unknown fields, Warn reports them.',
    hot: true,
  }),
  crd_wait_seconds: setting(interval, 60, {
    description: 'Time that one attempt waits until a CustomResourceDefinition of the same stack is established.',
  }),
  gone_wait_seconds: setting(interval, 5, { description: 'Time that one attempt waits until deleted objects are gone.' }),
  drift_fight_seconds: setting(interval, 600, {
    description: 'Window in which five healings of the same field count as a conflict with another writer. Further healings are delayed.',
    hot: true,
  }),
  resync_interval: setting(interval, 600, {
    description: 'Interval between two full scans of all stacks by metadata lists.',
    hot: true,
  }),
  verify_interval: setting(interval, 3600, {
    description: 'Time in which every member is compared once with its desired state by a dry run.',
    hot: true,
  }),
  watch_namespace: optional(namespace, {
    description: 'Namespace for objects without one, and the only namespace of a namespaced agent. Without it, default.',
  }),
  allowed_namespaces: setting(z.array(namespace), [], {
    description: 'Namespaces that stacks may write to. An empty list allows all.',
    hot: true,
  }),
  denied_kinds: setting(z.array(z.string().min(1)), [], {
    description: 'Kinds that stacks must not write, such as Secret or Deployment.apps.',
    hot: true,
  }),
  preset: setting(z.enum(['standard', 'namespaced', 'cluster-admin', 'observe']), 'standard', {
    description: 'Rights that the agent was installed with. With observe it reports and writes nothing.',
  }),
  protected_namespaces: setting(z.array(namespace), [], {
    description: "Namespaces that stacks must not write to. The agent's own namespace is always protected.",
    hot: true,
  }),
  grants: setting(
    z.record(z.string(), z.array(grant)),
    {},
    {
      description:
        'Generator id, or __work_orders__, to the grants of its stacks: clusterScoped, rbac, podSecurity. Without a grant only ordinary namespaced objects are allowed.',
    },
  ),
  identities: setting(
    z.record(z.string(), account),
    {},
    {
      description: 'Generator id, or __work_orders__, to the ServiceAccount (namespace/name) that the agent impersonates for its stacks.',
    },
  ),
  identities_required: setting(z.boolean(), false, { description: 'Refuses stacks of generators that have no entry in agent.identities.' }),
  require_signatures: setting(z.boolean(), false, { description: 'Applies only manifests signed with a key of agent.signature_keys.' }),
  signature_keys: setting(
    z.record(z.string(), z.string()),
    {},
    {
      description: 'Key id to Ed25519 public key, as PEM or as base64 of its 32 bytes.',
    },
  ),
  adoption: setting(z.enum(['unowned', 'never', 'any']), 'unowned', {
    description:
      'Existing objects that a stack may take over: unowned allows objects without an owner, never none, any also those that another tool manages.',
  }),
  adopt_from_agent_ids: setting(z.array(z.string().min(1)), [], {
    description: 'Ids of former agents of this cluster whose objects may be taken over.',
  }),
  prune_guard_count: setting(count, 5, {
    description: 'Deletions per deployment object up to which no prune approval is needed.',
    unit: 'objects',
    hot: true,
  }),
  prune_guard_percent: setting(z.number().min(0).max(100), 20, {
    description: 'Share of a stack up to which its objects are deleted without a prune approval, if prune_guard_count is exceeded.',
    unit: 'percent',
    hot: true,
  }),
  deployment_health_enabled: setting(z.boolean(), true, { description: 'Checks and reports the health of applied stacks.', hot: true }),
  deployment_health_interval: setting(interval, 60, { description: 'Interval between two health checks of all stacks.', hot: true }),
}
export type ReconcileConfig = ConfigOf<typeof reconcileTable>

export function checkReconcileConfig(agent: ReconcileConfig): { path: string; problem: string }[] {
  const keys = Object.entries(agent.signature_keys).flatMap(([id, text]) => {
    try {
      parsePublicKey(text)
      return []
    } catch {
      return [{ path: `agent.signature_keys.${id}`, problem: 'must be an Ed25519 public key, as PEM or as the base64 of its 32 bytes' }]
    }
  })
  if (agent.require_signatures && Object.keys(agent.signature_keys).length === 0)
    keys.push({
      path: 'agent.signature_keys',
      problem: 'is empty while agent.require_signatures is true: no manifest could be applied',
    })
  return [...keys, ...checkGeneratorKeys('grants', agent.grants), ...checkGeneratorKeys('identities', agent.identities)]
}

/** Lower case as the broker writes ids: another spelling would match no stack. */
const generatorKey = z.uuid().lowercase()

/** Generator names come from the broker: as keys they would let the broker choose the rights of a stack. */
const checkGeneratorKeys = (name: string, listed: Readonly<Record<string, unknown>>): { path: string; problem: string }[] =>
  Object.keys(listed)
    .filter((key) => key !== workOrdersGenerator.generatorId && !generatorKey.safeParse(key).success)
    .map((key) => ({ path: `agent.${name}.${key}`, problem: 'must be the id of a generator in lower case, or __work_orders__' }))

/** `ownNamespace` is the namespace of the agent's state. */
export const reconcileSettings = (agent: ReconcileConfig, ownNamespace: string): ReconcileDeps['settings'] => ({
  policy: {
    allowedNamespaces: agent.allowed_namespaces,
    watchNamespace: agent.watch_namespace,
    protectedNamespaces: [ownNamespace, ...agent.protected_namespaces],
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
