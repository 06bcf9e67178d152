// The whole permission policy: one rule per endpoint, in the words of the wire's own page. check-permit.ts reads them; no
// handler checks an identity itself.
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import type { ErrorCode } from '@brokkr/contract/error.ts'
import type { Principal } from './handler.ts'

/** A admin · G generator, Go the one that owns the thing · Ag the very agent of the path, Ag* any agent, At one that has the stack ·
 *  J whoever shows a join token. */
export type Who = 'A' | 'G' | 'Go' | 'Ag' | 'Ag*' | 'At' | 'J'
export interface Rule {
  readonly who: readonly Who[]
  /** The code every other caller gets; apart for generators and agents where the wire tells them apart. */
  readonly denied: ErrorCode | Readonly<Record<Exclude<Principal['kind'], 'invite'>, ErrorCode>>
  /** What must exist before ownership is looked at; left out when the operation itself answers for missing things. */
  readonly thing?: Thing
  /** Readers may do it though it is no read: it changes nothing but what is looked at. */
  readonly readersToo?: true
  /** Open to callers of these kinds whatever id the path holds. */
  readonly openPath?: true
  /** A field of the body that must name the calling generator. */
  readonly ownGenerator?: { readonly field: string; readonly denied: ErrorCode }
  /** A field of the query with the scopes of a watch: whoever is no admin names what is its own alone. */
  readonly watchScopes?: string
  /** Only for callers who brought a key, or only for those who brought a session's cookie. */
  readonly credential?: 'pak' | 'session'
}
export interface Thing {
  /** `namedAgent` is found by name and cluster in the query instead of by its id. */
  readonly kind: 'agent' | 'namedAgent' | 'generator' | 'stack' | 'deploymentObject'
  readonly in: 'params' | 'query' | 'body'
  readonly field: string
  /** A deleted one still counts, for admins and for agents that have to remove it. */
  readonly deletedToo?: true
  /** With include_deleted a deleted one is shown to admins, or to its owner too. */
  readonly shows?: 'admins' | 'owner'
  /** The code of its absence, where it is not the usual one of its kind. */
  readonly missing?: ErrorCode
}

const adminOnly = { who: ['A'], denied: 'admin_required' } as const
/** The endpoint itself asks for the token, so nobody else gets as far as being denied. */
const byJoinToken = { who: ['J'], denied: 'forbidden' } as const
const agent = { kind: 'agent', in: 'params', field: 'id' } as const
const stack = { kind: 'stack', in: 'params', field: 'id' } as const
const generator = { kind: 'generator', in: 'params', field: 'id' } as const
const agentItself = { who: ['A', 'Ag'], denied: 'agent_pak_mismatch', thing: agent } as const
const agentAlone = { who: ['Ag'], denied: 'agent_pak_mismatch' } as const
const generatorItself = { who: ['A', 'Go'], denied: 'generator_not_owned', thing: generator } as const
const registering = { who: ['A', 'Ag*'], denied: 'forbidden', thing: generator, openPath: true } as const
const stackOwner = { who: ['A', 'Go'], denied: 'stack_not_owned', thing: stack } as const
const stackMarks = { who: ['A', 'Go', 'At'], denied: 'stack_not_accessible', thing: { ...stack, deletedToo: true } } as const
const templateReader = { who: ['A', 'G'], denied: 'template_not_accessible' } as const
const templateOwner = { who: ['A', 'G'], denied: 'template_not_owned' } as const
const targetDenied = { admin: 'forbidden', generator: 'target_generator_mismatch', agent: 'target_create_denied' } as const
const associated = { admin: 'forbidden', generator: 'generator_not_associated', agent: 'agent_not_associated' } as const

export const rules = {
  verifyPak: { who: ['A', 'G', 'Ag*'], denied: 'forbidden' },
  listAgents: { who: ['A', 'G'], denied: 'generator_required' },
  createAgent: adminOnly,
  searchAgent: { who: ['A', 'Ag'], denied: 'agent_pak_mismatch', thing: { kind: 'namedAgent', in: 'query', field: 'name' } },
  getAgent: { ...agentItself, thing: { ...agent, shows: 'admins' } },
  updateAgent: agentItself,
  deleteAgent: adminOnly,
  rotateAgentPak: agentItself,
  agentsListLabels: agentItself,
  agentsAddLabel: adminOnly,
  agentsRemoveLabel: adminOnly,
  agentsListAnnotations: agentItself,
  agentsAddAnnotation: adminOnly,
  agentsRemoveAnnotation: adminOnly,
  listTargets: agentItself,
  addTarget: { who: ['A', 'Go'], denied: targetDenied, thing: { kind: 'stack', in: 'body', field: 'stack_id' }, openPath: true },
  removeTarget: { who: ['A', 'Go'], denied: targetDenied, thing: { kind: 'stack', in: 'params', field: 'stack_id' }, openPath: true },
  getAssociatedStacks: agentItself,
  listAgentRegistrations: agentItself,
  recordHeartbeat: agentAlone,
  getTargetState: agentItself,
  agentStream: agentAlone,
  reportStatus: agentAlone,
  approvePrune: { ...adminOnly, thing: agent },
  listPruneApprovals: { ...agentItself, denied: 'admin_required' },
  watch: { who: ['A', 'G', 'Ag*'], denied: 'forbidden', watchScopes: 'scope' },
  newEpoch: adminOnly,
  listEvents: { ...agentItself, thing: { ...agent, shows: 'admins' } },
  createEvent: agentItself,
  createEvents: agentAlone,
  listAgentEvents: adminOnly,
  getAgentEvent: adminOnly,
  updateHealthStatus: agentItself,
  listFleet: adminOnly,
  getAgentFleetStatus: { ...adminOnly, thing: agent },
  getOverview: adminOnly,
  listGenerators: adminOnly,
  createGenerator: adminOnly,
  getGenerator: { ...generatorItself, thing: { ...generator, shows: 'admins' } },
  updateGenerator: { ...generatorItself, thing: { ...generator, missing: 'not_found' } },
  deleteGenerator: generatorItself,
  rotateGeneratorPak: generatorItself,
  registerAgent: registering,
  deregisterAgent: registering,
  listGeneratorRegisteredAgents: { ...generatorItself, denied: 'not_authorized' },
  listPaks: adminOnly,
  listStacks: { who: ['A', 'G'], denied: 'stacks_list_denied' },
  createStack: {
    who: ['A', 'G'],
    denied: 'stack_create_denied',
    ownGenerator: { field: 'generator_id', denied: 'stack_generator_mismatch' },
  },
  getStack: { ...stackOwner, thing: { ...stack, shows: 'admins' } },
  updateStack: stackOwner,
  deleteStack: stackOwner,
  rollbackStack: stackOwner,
  stacksListLabels: stackMarks,
  stacksAddLabel: stackOwner,
  stacksRemoveLabel: stackOwner,
  stacksListAnnotations: stackMarks,
  stacksAddAnnotation: stackOwner,
  stacksRemoveAnnotation: stackOwner,
  getStackStatus: stackOwner,
  getStackHealth: adminOnly,
  getDeploymentHealth: adminOnly,
  createDeploymentObject: stackOwner,
  listDeploymentObjects: { ...stackOwner, thing: { ...stack, shows: 'owner' } },
  getDeploymentObject: {
    who: ['A', 'Go', 'At'],
    denied: associated,
    thing: { kind: 'deploymentObject', in: 'params', field: 'id', shows: 'owner' },
  },
  listAgentInvites: adminOnly,
  createAgentInvite: adminOnly,
  getAgentInvite: adminOnly,
  revokeAgentInvite: adminOnly,
  getJoinManifest: byJoinToken,
  join: byJoinToken,
  listAdminPaks: adminOnly,
  createAdminPak: adminOnly,
  rotateAdminPak: adminOnly,
  revokeAdminPak: adminOnly,
  createSession: { who: ['A', 'G'], denied: 'forbidden', credential: 'pak' },
  deleteSession: { who: ['A', 'G'], denied: 'forbidden', credential: 'session' },
  listAuditLogs: adminOnly,
  getConfig: adminOnly,
  listTasks: adminOnly,
  listTemplates: { who: ['A', 'G'], denied: 'templates_not_accessible' },
  createTemplate: { who: ['A', 'G'], denied: 'templates_not_accessible' },
  getTemplate: templateReader,
  updateTemplate: templateOwner,
  deleteTemplate: templateOwner,
  templatesListLabels: templateReader,
  templatesAddLabel: templateOwner,
  templatesRemoveLabel: templateOwner,
  templatesListAnnotations: templateReader,
  templatesAddAnnotation: templateOwner,
  templatesRemoveAnnotation: templateOwner,
  instantiateTemplate: { ...stackOwner, thing: { ...stack, field: 'stack_id' } },
  listWorkOrders: adminOnly,
  createWorkOrder: adminOnly,
  getWorkOrder: adminOnly,
  deleteWorkOrder: adminOnly,
  listPendingForAgent: { ...agentItself, thing: { ...agent, field: 'agent_id' } },
  claimWorkOrder: { who: ['A', 'Ag*'], denied: 'agent_pak_mismatch' },
  completeWorkOrder: { who: ['A', 'Ag*'], denied: 'work_order_not_claimed_by_agent' },
  listWorkOrderLog: adminOnly,
  getWorkOrderLog: adminOnly,
  listWebhooks: adminOnly,
  createWebhook: adminOnly,
  listEventTypes: adminOnly,
  getWebhook: adminOnly,
  updateWebhook: adminOnly,
  deleteWebhook: adminOnly,
  testWebhook: adminOnly,
  rotateWebhookSecret: adminOnly,
  listDeliveries: adminOnly,
  listAllDeliveries: adminOnly,
  replayDelivery: adminOnly,
  replayDeliveries: adminOnly,
  getPendingAgentWebhooks: { ...agentItself, thing: { ...agent, field: 'agent_id' } },
  reportDeliveryResult: { who: ['Ag*'], denied: 'agent_pak_required' },
  createDiagnosticRequest: { ...adminOnly, readersToo: true, thing: { kind: 'deploymentObject', in: 'params', field: 'id' } },
  getPendingDiagnostics: agentItself,
  getDiagnostic: { who: ['A', 'Ag*'], denied: 'diagnostic_not_owned' },
  claimDiagnostic: { who: ['A', 'Ag*'], denied: 'diagnostic_not_owned' },
  submitDiagnosticResult: { who: ['Ag*'], denied: 'diagnostic_not_owned' },
  listTelemetryEvents: stackOwner,
  listTelemetryLogs: stackOwner,
  reloadConfig: adminOnly,
  listWsConnections: adminOnly,
} as const satisfies Record<EndpointName, Rule>
