// The one table of endpoints by name. A name here is the key of the permission table, the client's method and, in snake
// case, the operationId of the OpenAPI document.
import {
  createAdminPak,
  createSession,
  deleteSession,
  getConfig,
  listAdminPaks,
  listTasks,
  revokeAdminPak,
  rotateAdminPak,
  verifyPak,
} from './admin.ts'
import { createAgent, deleteAgent, getAgent, listAgents, recordHeartbeat, rotateAgentPak, searchAgent, updateAgent } from './agent.ts'
import { createAgentInvite, getAgentInvite, getJoinManifest, join, listAgentInvites, revokeAgentInvite } from './agent-invite.ts'
import {
  agentsAddAnnotation,
  agentsAddLabel,
  agentsListAnnotations,
  agentsListLabels,
  agentsRemoveAnnotation,
  agentsRemoveLabel,
} from './agent-marks.ts'
import { addTarget, getAssociatedStacks, listAgentRegistrations, listTargets, removeTarget } from './agent-reach.ts'
import { listAuditLogs } from './audit.ts'
import { createDeploymentObject, getDeploymentObject, getTargetState, listDeploymentObjects, rollbackStack } from './deployment-object.ts'
import { claimDiagnostic, createDiagnosticRequest, getDiagnostic, getPendingDiagnostics, submitDiagnosticResult } from './diagnostic.ts'
import type { CallOf, Endpoint, InputOf, OtherOf, OutputOf } from './endpoint.ts'
import { createEvent, createEvents, getAgentEvent, listAgentEvents, listEvents } from './event.ts'
import { getAgentFleetStatus, getOverview, listFleet } from './fleet.ts'
import {
  createGenerator,
  deleteGenerator,
  deregisterAgent,
  getGenerator,
  listGeneratorRegisteredAgents,
  listGenerators,
  listPaks,
  registerAgent,
  rotateGeneratorPak,
  updateGenerator,
} from './generator.ts'
import { getDeploymentHealth, getStackHealth, updateHealthStatus } from './health.ts'
import { listWsConnections, reloadConfig } from './operation.ts'
import { approvePrune, listPruneApprovals } from './prune-approval.ts'
import { createStack, deleteStack, getStack, getStackStatus, listStacks, updateStack } from './stack.ts'
import {
  stacksAddAnnotation,
  stacksAddLabel,
  stacksListAnnotations,
  stacksListLabels,
  stacksRemoveAnnotation,
  stacksRemoveLabel,
} from './stack-marks.ts'
import { agentStream, newEpoch, reportStatus, watch } from './stream.ts'
import { listTelemetryEvents, listTelemetryLogs } from './telemetry.ts'
import { createTemplate, deleteTemplate, getTemplate, instantiateTemplate, listTemplates, updateTemplate } from './template.ts'
import {
  templatesAddAnnotation,
  templatesAddLabel,
  templatesListAnnotations,
  templatesListLabels,
  templatesRemoveAnnotation,
  templatesRemoveLabel,
} from './template-marks.ts'
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listEventTypes,
  listWebhooks,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
} from './webhook.ts'
import {
  getPendingAgentWebhooks,
  listAllDeliveries,
  listDeliveries,
  replayDeliveries,
  replayDelivery,
  reportDeliveryResult,
} from './webhook-delivery.ts'
import {
  claimWorkOrder,
  completeWorkOrder,
  createWorkOrder,
  deleteWorkOrder,
  getWorkOrder,
  getWorkOrderLog,
  listPendingForAgent,
  listWorkOrderLog,
  listWorkOrders,
} from './work-order.ts'

export const endpoints = {
  verifyPak,
  listAgents,
  createAgent,
  searchAgent,
  getAgent,
  updateAgent,
  deleteAgent,
  rotateAgentPak,
  agentsListLabels,
  agentsAddLabel,
  agentsRemoveLabel,
  agentsListAnnotations,
  agentsAddAnnotation,
  agentsRemoveAnnotation,
  listTargets,
  addTarget,
  removeTarget,
  getAssociatedStacks,
  listAgentRegistrations,
  recordHeartbeat,
  getTargetState,
  agentStream,
  reportStatus,
  approvePrune,
  listPruneApprovals,
  watch,
  newEpoch,
  listEvents,
  createEvent,
  createEvents,
  listAgentEvents,
  getAgentEvent,
  updateHealthStatus,
  listFleet,
  getAgentFleetStatus,
  getOverview,
  listGenerators,
  createGenerator,
  getGenerator,
  updateGenerator,
  deleteGenerator,
  rotateGeneratorPak,
  registerAgent,
  deregisterAgent,
  listGeneratorRegisteredAgents,
  listPaks,
  listStacks,
  createStack,
  getStack,
  updateStack,
  deleteStack,
  rollbackStack,
  stacksListLabels,
  stacksAddLabel,
  stacksRemoveLabel,
  stacksListAnnotations,
  stacksAddAnnotation,
  stacksRemoveAnnotation,
  getStackStatus,
  getStackHealth,
  createDeploymentObject,
  listDeploymentObjects,
  getDeploymentObject,
  getDeploymentHealth,
  listAgentInvites,
  createAgentInvite,
  getAgentInvite,
  revokeAgentInvite,
  getJoinManifest,
  join,
  listAdminPaks,
  createAdminPak,
  rotateAdminPak,
  revokeAdminPak,
  createSession,
  deleteSession,
  listAuditLogs,
  getConfig,
  listTasks,
  listTemplates,
  createTemplate,
  getTemplate,
  updateTemplate,
  deleteTemplate,
  instantiateTemplate,
  templatesListLabels,
  templatesAddLabel,
  templatesRemoveLabel,
  templatesListAnnotations,
  templatesAddAnnotation,
  templatesRemoveAnnotation,
  listWorkOrders,
  createWorkOrder,
  getWorkOrder,
  deleteWorkOrder,
  listPendingForAgent,
  claimWorkOrder,
  completeWorkOrder,
  listWorkOrderLog,
  getWorkOrderLog,
  listWebhooks,
  createWebhook,
  listEventTypes,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  testWebhook,
  rotateWebhookSecret,
  listDeliveries,
  listAllDeliveries,
  replayDelivery,
  replayDeliveries,
  getPendingAgentWebhooks,
  reportDeliveryResult,
  createDiagnosticRequest,
  getPendingDiagnostics,
  getDiagnostic,
  claimDiagnostic,
  submitDiagnosticResult,
  listTelemetryEvents,
  listTelemetryLogs,
  reloadConfig,
  listWsConnections,
} as const satisfies Record<string, Endpoint>

export type Endpoints = typeof endpoints
export type EndpointName = keyof Endpoints
export type Input<N extends EndpointName> = InputOf<Endpoints[N]>
export type Output<N extends EndpointName> = OutputOf<Endpoints[N]>
/** The shape of the second success, where an endpoint has one. */
export type Other<N extends EndpointName> = OtherOf<Endpoints[N]>
export type Call<N extends EndpointName> = CallOf<Endpoints[N]>
