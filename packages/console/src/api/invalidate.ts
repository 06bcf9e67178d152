// Which reads a change affects. A pointer of the feed names a kind and a scope; a read is affected if it shows that kind and is not bound to
// another resource.
import type { EndpointName } from '@brokkr/contract/endpoints.ts'

export interface Change {
  /** Such as `stack:<id>`. */
  readonly scope: string
  readonly kind: string
  readonly id: string | null
}

const stackReads: EndpointName[] = ['listStacks', 'getStack', 'getStackStatus', 'getHold', 'getOverview']
const agentReads: EndpointName[] = ['listFleet', 'listAgents', 'getAgent', 'getAgentFleetStatus', 'getOverview']

const readsOfKind: Readonly<Record<string, readonly EndpointName[]>> = {
  agent: [...agentReads, 'getStackStatus', 'getAgentInvite', 'listAgentInvites'],
  stack: [...stackReads, 'getAssociatedStacks'],
  deployment_object: [...stackReads, 'listDeploymentObjects', 'listAuditLogs', 'listTimeline'],
  status: [...stackReads, ...agentReads],
  health: [...stackReads, ...agentReads, 'getStackHealth', 'getDeploymentHealth'],
  target: [...stackReads, 'listTargets', 'getAssociatedStacks', 'listFleet'],
  inventory: ['getStackTree'],
  agent_event: ['listAgentEvents', 'listEvents', 'listTimeline', 'getAgentFleetStatus'],
  label: ['agentsListLabels', 'stacksListLabels', 'listFleet', 'listStacks'],
  annotation: ['agentsListAnnotations', 'stacksListAnnotations'],
  registration: ['listAgentRegistrations', 'listGeneratorRegisteredAgents'],
  generator: ['listGenerators', 'getGenerator', 'listPaks'],
  template: ['listTemplates', 'getTemplate'],
  webhook_subscription: ['listWebhooks', 'getWebhook'],
  webhook_delivery: ['listAllDeliveries', 'listDeliveries', 'getOverview'],
  work_order: ['listWorkOrders', 'getWorkOrder', 'listWorkOrderLog', 'getWorkOrderLog', 'getWorkOrderOutput', 'getOverview'],
  diagnostic: ['getDiagnostic'],
  flow: ['listFlows', 'getFlow'],
  task: ['listTasks'],
  config: ['getConfig'],
}

/** Every kind that the console watches. */
export const watchedKinds: readonly string[] = Object.keys(readsOfKind)

/** Pure. `key` is that of use-call.ts. */
export function isAffected(key: readonly unknown[], change: Change): boolean {
  const [name, input] = key as [EndpointName, { params?: { id?: string } } | undefined]
  if (readsOfKind[change.kind]?.includes(name) !== true) return false
  const boundTo = input?.params?.id
  if (boundTo === undefined) return true
  const [scopeKind, scopeId] = change.scope.split(':')
  const isAboutStack = scopeKind === 'stack' || scopeKind === 'stack_status'
  const isStackRead = stackBound.has(name)
  if (isAboutStack && isStackRead) return scopeId === boundTo || change.id === boundTo
  if (scopeKind === 'agent' && !isStackRead) return scopeId === boundTo || change.id === boundTo
  return true
}

const stackBound: ReadonlySet<string> = new Set<EndpointName>([
  'getStack',
  'getStackStatus',
  'getHold',
  'getStackHealth',
  'getStackTree',
  'listDeploymentObjects',
  'stacksListLabels',
  'stacksListAnnotations',
])
