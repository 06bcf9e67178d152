// The whole permission policy: one rule per endpoint. check-permit.ts evaluates them; no handler checks an identity itself.
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import type { ErrorCode } from '@brokkr/contract/errors.ts'
import type { Principal } from '../http/server/handler.ts'
import type { Verb } from './permit-tables.ts'

/** `readingGenerator` owns the resource or the resource belongs to no generator, `pathAgent` is the agent that the path names, `targetedAgent` one that the stack targets, `joinToken` a caller with a join token, `loginLink` one with the token of a sign-in link. */
export type Who =
  | 'admin'
  | 'anyGenerator'
  | 'owningGenerator'
  | 'readingGenerator'
  | 'pathAgent'
  | 'anyAgent'
  | 'targetedAgent'
  | 'joinToken'
  | 'loginLink'
export interface Rule {
  readonly who: readonly Who[]
  /** Error code for other callers, separate for generators and agents where the API distinguishes them. */
  readonly denied: ErrorCode | Readonly<Record<Exclude<Principal['kind'], 'invite' | 'link'>, ErrorCode>>
  /** Resource that must exist before ownership is checked; omitted if the action itself reports missing resources. */
  readonly thing?: ResourceRule
  /** Allowed for read-only credentials although the method is not a read. */
  readonly readersToo?: true
  /** Open to callers of these kinds for any id in the path. */
  readonly openPath?: true
  /** Body field that must name the calling generator. */
  readonly ownGenerator?: { readonly field: string; readonly denied: ErrorCode }
  /** Verb that an admin PAK with a scope needs besides that of the endpoint if this body field is true. */
  readonly moreVerb?: { readonly field: string; readonly verb: Verb }
  /** Query field with the scopes of a watch; callers other than admins may name only their own scopes. */
  readonly watchScopes?: string
  /** Restricts the call to PAKs or to session cookies. */
  readonly credential?: 'pak' | 'session'
}
export interface ResourceRule {
  /** `namedAgent` is found by name and cluster in the query instead of by id. */
  readonly kind: 'agent' | 'namedAgent' | 'generator' | 'stack' | 'deploymentObject' | 'template' | 'plan' | 'flow'
  readonly in: 'params' | 'query' | 'body'
  readonly field: string
  /** Deleted resources count as existing, for admins and for agents that have to remove them. */
  readonly deletedToo?: true
  /** Deleted resources count as existing for every caller that the rule names. */
  readonly alsoDeleted?: true
  /** With include_deleted, deleted resources are shown to admins, or also to their owner. */
  readonly shows?: 'admins' | 'owner'
  /** Error code of a missing resource, if it differs from the default of its kind. */
  readonly missing?: ErrorCode
}

const adminOnly = { who: ['admin'], denied: 'admin_required' } as const
/** Authentication of these endpoints accepts only these tokens, so the code is never sent. */
const byJoinToken = { who: ['joinToken'], denied: 'forbidden' } as const
const byLoginLink = { who: ['loginLink'], denied: 'forbidden' } as const
const agent = { kind: 'agent', in: 'params', field: 'id' } as const
const stack = { kind: 'stack', in: 'params', field: 'id' } as const
const generator = { kind: 'generator', in: 'params', field: 'id' } as const
const agentItself = { who: ['admin', 'pathAgent'], denied: 'agent_pak_mismatch', thing: agent } as const
const agentAlone = { who: ['pathAgent'], denied: 'agent_pak_mismatch' } as const
const generatorItself = { who: ['admin', 'owningGenerator'], denied: 'generator_not_owned', thing: generator } as const
const registering = { who: ['admin', 'anyAgent'], denied: 'forbidden', thing: generator, openPath: true } as const
const stackOwner = { who: ['admin', 'owningGenerator'], denied: 'stack_not_owned', thing: stack } as const
const stackMarks = {
  who: ['admin', 'owningGenerator', 'targetedAgent'],
  denied: 'stack_not_accessible',
  thing: { ...stack, deletedToo: true },
} as const
const flow = { kind: 'flow', in: 'params', field: 'id' } as const
const plan = { kind: 'plan', in: 'params', field: 'id' } as const
const template = { kind: 'template', in: 'params', field: 'id' } as const
const templateReader = { who: ['admin', 'readingGenerator'], denied: 'template_not_accessible', thing: template } as const
const templateOwner = { who: ['admin', 'owningGenerator'], denied: 'template_not_owned', thing: template } as const
const targetDenied = { admin: 'forbidden', generator: 'target_generator_mismatch', agent: 'target_create_denied' } as const
const associated = { admin: 'forbidden', generator: 'generator_not_associated', agent: 'agent_not_associated' } as const

export const rules = {
  verifyPak: { who: ['admin', 'anyGenerator', 'anyAgent'], denied: 'forbidden' },
  listAccess: { who: ['admin', 'anyGenerator', 'anyAgent'], denied: 'forbidden' },
  listStackAccess: stackOwner,
  listAgents: { who: ['admin', 'anyGenerator'], denied: 'generator_required' },
  createAgent: adminOnly,
  searchAgent: { who: ['admin', 'pathAgent'], denied: 'agent_pak_mismatch', thing: { kind: 'namedAgent', in: 'query', field: 'name' } },
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
  addTarget: {
    who: ['admin', 'owningGenerator'],
    denied: targetDenied,
    thing: { kind: 'stack', in: 'body', field: 'stack_id' },
    openPath: true,
  },
  removeTarget: {
    who: ['admin', 'owningGenerator'],
    denied: targetDenied,
    thing: { kind: 'stack', in: 'params', field: 'stack_id' },
    openPath: true,
  },
  getAssociatedStacks: agentItself,
  listAgentRegistrations: agentItself,
  recordHeartbeat: agentAlone,
  getTargetState: agentItself,
  agentStream: agentAlone,
  reportStatus: agentAlone,
  approvePrune: { ...adminOnly, thing: agent },
  listPruneApprovals: { ...agentItself, denied: 'admin_required' },
  watch: { who: ['admin', 'anyGenerator', 'anyAgent'], denied: 'forbidden', watchScopes: 'scope' },
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
  listStacks: { who: ['admin', 'anyGenerator'], denied: 'stacks_list_denied' },
  createStack: {
    who: ['admin', 'anyGenerator'],
    denied: 'stack_create_denied',
    ownGenerator: { field: 'generator_id', denied: 'stack_generator_mismatch' },
  },
  getStack: { ...stackOwner, thing: { ...stack, shows: 'admins' } },
  updateStack: stackOwner,
  deleteStack: stackOwner,
  undeleteStack: { ...stackOwner, thing: { ...stack, alsoDeleted: true } },
  rollbackStack: { ...stackOwner, moreVerb: { field: 'hold', verb: 'operate' } },
  holdStack: stackOwner,
  getHold: stackOwner,
  releaseStack: stackOwner,
  createPlan: stackOwner,
  getPlan: { ...stackOwner, thing: plan },
  listPendingPlans: agentAlone,
  reportPlanResult: { who: ['targetedAgent'], denied: 'plan_not_targeted', thing: plan },
  stacksListLabels: stackMarks,
  stacksAddLabel: stackOwner,
  stacksRemoveLabel: stackOwner,
  stacksListAnnotations: stackMarks,
  stacksAddAnnotation: stackOwner,
  stacksRemoveAnnotation: stackOwner,
  getStackStatus: { ...stackOwner, thing: { ...stack, shows: 'owner' } },
  getStackHealth: adminOnly,
  getDeploymentHealth: adminOnly,
  createDeploymentObject: stackOwner,
  listDeploymentObjects: { ...stackOwner, thing: { ...stack, shows: 'owner' } },
  getProvenance: { who: ['admin', 'owningGenerator'], denied: associated, thing: { kind: 'deploymentObject', in: 'params', field: 'id' } },
  getDeploymentObject: {
    who: ['admin', 'owningGenerator', 'targetedAgent'],
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
  createSession: { who: ['admin', 'anyGenerator'], denied: 'forbidden', credential: 'pak' },
  deleteSession: { who: ['admin', 'anyGenerator'], denied: 'forbidden', credential: 'session' },
  createLoginLink: { who: ['admin', 'anyGenerator'], denied: 'forbidden', credential: 'pak' },
  exchangeLoginLink: byLoginLink,
  listAuditLogs: adminOnly,
  listTimeline: adminOnly,
  getConfig: adminOnly,
  listTasks: adminOnly,
  listTemplates: { who: ['admin', 'anyGenerator'], denied: 'templates_not_accessible' },
  createTemplate: { who: ['admin', 'anyGenerator'], denied: 'templates_not_accessible' },
  lintTemplate: { who: ['admin', 'anyGenerator'], denied: 'templates_not_accessible' },
  getTemplate: { ...templateReader, thing: { ...template, shows: 'owner' } },
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
  claimWorkOrder: { who: ['admin', 'anyAgent'], denied: 'agent_pak_mismatch' },
  completeWorkOrder: { who: ['admin', 'anyAgent'], denied: 'work_order_not_claimed_by_agent' },
  listWorkOrderLog: adminOnly,
  getWorkOrderLog: adminOnly,
  retryWorkOrder: adminOnly,
  appendWorkOrderOutput: { who: ['anyAgent'], denied: 'work_order_not_claimed_by_agent' },
  getWorkOrderOutput: adminOnly,
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
  reportDeliveryResult: { who: ['anyAgent'], denied: 'agent_pak_required' },
  createDiagnosticRequest: { ...adminOnly, readersToo: true, thing: { kind: 'deploymentObject', in: 'params', field: 'id' } },
  getPendingDiagnostics: agentItself,
  getDiagnostic: { who: ['admin', 'anyAgent'], denied: 'diagnostic_not_owned' },
  claimDiagnostic: { who: ['admin', 'anyAgent'], denied: 'diagnostic_not_owned' },
  submitDiagnosticResult: { who: ['anyAgent'], denied: 'diagnostic_not_owned' },
  pushTelemetry: agentAlone,
  reportInventory: agentAlone,
  getStackTree: stackOwner,
  listTelemetryEvents: stackOwner,
  listTelemetryLogs: stackOwner,
  listFlows: { who: ['admin', 'anyGenerator'], denied: 'generator_required' },
  getFlow: { ...stackOwner, thing: flow },
  createFlowOrder: { ...stackOwner, thing: flow },
  previewFlow: { who: ['admin', 'anyGenerator'], denied: 'generator_required', readersToo: true },
  listPipelines: adminOnly,
  explainPipeline: adminOnly,
  startRun: adminOnly,
  listPromotions: adminOnly,
  decidePromotion: adminOnly,
  retryPromotion: adminOnly,
  abortPromotion: adminOnly,
  reloadConfig: adminOnly,
  listWsConnections: adminOnly,
} as const satisfies Record<EndpointName, Rule>
