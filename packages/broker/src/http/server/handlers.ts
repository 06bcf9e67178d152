// All handlers by endpoint name; the compiler reports a missing one.

import * as adminPaks from '../../admin/routes/admin-paks.ts'
import * as operation from '../../admin/routes/operation.ts'
import * as agents from '../../agents/routes/agents.ts'
import * as fleet from '../../agents/routes/fleet.ts'
import * as agentMarks from '../../agents/routes/labels.ts'
import * as audit from '../../audit/routes.ts'
import * as loginLinks from '../../auth/routes/login-links.ts'
import * as sessions from '../../auth/routes/sessions.ts'
import * as auth from '../../auth/routes/verify-pak.ts'
import * as objects from '../../deployments/routes.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as diagnostics from '../../diagnostics/routes.ts'
import * as flows from '../../flows/routes.ts'
import * as forward from '../../forward/routes.ts'
import * as generators from '../../generators/routes.ts'
import * as health from '../../health/routes.ts'
import * as inventory from '../../inventory/routes.ts'
import * as invites from '../../invites/routes.ts'
import * as live from '../../live/routes.ts'
import * as plans from '../../plans/routes.ts'
import * as agentEvents from '../../reports/routes/agent-events.ts'
import * as pruneApprovals from '../../reports/routes/prune-approvals.ts'
import * as reports from '../../reports/routes/status.ts'
import * as holds from '../../stacks/routes/holds.ts'
import * as stackMarks from '../../stacks/routes/labels.ts'
import * as stacks from '../../stacks/routes/stacks.ts'
import * as targetState from '../../targeting/routes/target-state.ts'
import * as agentReach from '../../targeting/routes/targets.ts'
import * as telemetry from '../../telemetry/routes.ts'
import * as templateLabels from '../../templates/routes/labels.ts'
import * as templates from '../../templates/routes/templates.ts'
import * as timeline from '../../timeline/routes.ts'
import * as webhookDeliveries from '../../webhooks/delivery/routes.ts'
import * as webhooks from '../../webhooks/subscriptions/routes.ts'
import * as workOrders from '../../work-orders/routes.ts'
import type { Handlers } from './handler.ts'

export const handlers: Handlers<BrokerDeps> = {
  verifyPak: auth.verifyPak,
  listAccess: auth.handleListAccess,
  listStackAccess: auth.handleListStackAccess,
  listAgents: agents.handleListAgents,
  createAgent: agents.handleCreateAgent,
  searchAgent: agents.handleSearch,
  getAgent: agents.handleGetAgent,
  updateAgent: agents.handleUpdate,
  deleteAgent: agents.handleDelete,
  rotateAgentPak: agents.handleRotatePak,
  agentsListLabels: agentMarks.handleListLabels,
  agentsAddLabel: agentMarks.handleAddLabel,
  agentsRemoveLabel: agentMarks.handleRemoveLabel,
  agentsListAnnotations: agentMarks.handleListAnnotations,
  agentsAddAnnotation: agentMarks.handleAddAnnotation,
  agentsRemoveAnnotation: agentMarks.handleRemoveAnnotation,
  listTargets: agentReach.handleListTargets,
  addTarget: agentReach.handleAddTarget,
  removeTarget: agentReach.handleRemoveTarget,
  getAssociatedStacks: agentReach.handleStacks,
  listAgentRegistrations: agentReach.handleRegistrations,
  recordHeartbeat: agents.handleHeartbeat,
  getTargetState: targetState.handleTargetState,
  agentStream: reports.handleStream,
  reportStatus: reports.handleReportStatus,
  approvePrune: pruneApprovals.handleApprove,
  listPruneApprovals: pruneApprovals.handleList,
  watch: reports.handleWatch,
  newEpoch: reports.handleNewEpoch,
  listEvents: agentEvents.handleListOfAgent,
  createEvent: agentEvents.handleCreate,
  createEvents: agentEvents.handleCreateMany,
  listAgentEvents: agentEvents.handleList,
  getAgentEvent: agentEvents.handleGet,
  updateHealthStatus: health.handleUpdate,
  listFleet: fleet.handleList,
  getAgentFleetStatus: fleet.handleGet,
  getOverview: fleet.handleOverview,
  listGenerators: generators.handleListGenerators,
  createGenerator: generators.handleCreateGenerator,
  getGenerator: generators.handleGet,
  updateGenerator: generators.handleUpdate,
  deleteGenerator: generators.handleDelete,
  rotateGeneratorPak: generators.handleRotatePak,
  registerAgent: generators.handleRegister,
  deregisterAgent: generators.handleDeregister,
  listGeneratorRegisteredAgents: generators.handleRegisteredAgents,
  listPaks: generators.handleListPaks,
  listStacks: stacks.handleListStacks,
  createStack: stacks.handleCreateStack,
  getStack: stacks.handleGetStack,
  updateStack: stacks.handleUpdate,
  deleteStack: stacks.handleDeleteStack,
  undeleteStack: stacks.handleUndelete,
  rollbackStack: objects.handleRollback,
  holdStack: holds.handleHold,
  getHold: holds.handleGet,
  releaseStack: holds.handleRelease,
  createPlan: plans.handleCreate,
  getPlan: plans.handleGet,
  listPendingPlans: plans.handlePending,
  reportPlanResult: plans.handleResult,
  stacksListLabels: stackMarks.handleListLabels,
  stacksAddLabel: stackMarks.handleAddLabel,
  stacksRemoveLabel: stackMarks.handleRemoveLabel,
  stacksListAnnotations: stackMarks.handleListAnnotations,
  stacksAddAnnotation: stackMarks.handleAddAnnotation,
  stacksRemoveAnnotation: stackMarks.handleRemoveAnnotation,
  getStackStatus: stacks.handleGetStatus,
  getStackHealth: health.handleOfStack,
  createDeploymentObject: objects.handleCreate,
  listDeploymentObjects: objects.handleList,
  getDeploymentObject: objects.handleGet,
  getProvenance: objects.handleProvenance,
  getDeploymentHealth: health.handleOfObject,
  listAgentInvites: invites.handleList,
  createAgentInvite: invites.handleCreate,
  getAgentInvite: invites.handleGet,
  revokeAgentInvite: invites.handleRevoke,
  getJoinManifest: invites.handleManifest,
  join: invites.handleJoin,
  listAdminPaks: adminPaks.handleList,
  createAdminPak: adminPaks.handleCreate,
  rotateAdminPak: adminPaks.handleRotate,
  revokeAdminPak: adminPaks.handleRevoke,
  createSession: sessions.handleCreate,
  deleteSession: sessions.handleDelete,
  createLoginLink: loginLinks.handleCreate,
  exchangeLoginLink: loginLinks.handleExchange,
  listAuditLogs: audit.handleList,
  listTimeline: timeline.handleList,
  getConfig: operation.handleGetConfig,
  listTasks: operation.handleListTasks,
  listTemplates: templates.handleList,
  createTemplate: templates.handleCreate,
  lintTemplate: templates.handleLint,
  getTemplate: templates.handleGet,
  updateTemplate: templates.handleUpdate,
  deleteTemplate: templates.handleDelete,
  instantiateTemplate: templates.handleInstantiate,
  templatesListLabels: templateLabels.handleListLabels,
  templatesAddLabel: templateLabels.handleAddLabel,
  templatesRemoveLabel: templateLabels.handleRemoveLabel,
  templatesListAnnotations: templateLabels.handleListAnnotations,
  templatesAddAnnotation: templateLabels.handleAddAnnotation,
  templatesRemoveAnnotation: templateLabels.handleRemoveAnnotation,
  listWorkOrders: workOrders.handleList,
  createWorkOrder: workOrders.handleCreate,
  getWorkOrder: workOrders.handleGet,
  deleteWorkOrder: workOrders.handleDelete,
  listPendingForAgent: workOrders.handlePending,
  claimWorkOrder: workOrders.handleClaim,
  completeWorkOrder: workOrders.handleComplete,
  listWorkOrderLog: workOrders.handleListLog,
  getWorkOrderLog: workOrders.handleGetLog,
  retryWorkOrder: workOrders.handleRetry,
  appendWorkOrderOutput: workOrders.handleAppendOutput,
  getWorkOrderOutput: workOrders.handleGetOutput,
  listWebhooks: webhooks.handleList,
  createWebhook: webhooks.handleCreate,
  listEventTypes: webhooks.handleEventTypes,
  getWebhook: webhooks.handleGet,
  updateWebhook: webhooks.handleUpdate,
  deleteWebhook: webhooks.handleDelete,
  testWebhook: webhooks.handleTest,
  rotateWebhookSecret: webhooks.handleRotateSecret,
  listDeliveries: webhookDeliveries.handleListOfWebhook,
  listAllDeliveries: webhookDeliveries.handleList,
  replayDelivery: webhookDeliveries.handleReplay,
  replayDeliveries: webhookDeliveries.handleReplayMany,
  getPendingAgentWebhooks: webhookDeliveries.handlePending,
  reportDeliveryResult: webhookDeliveries.handleResult,
  pushTelemetry: telemetry.handlePush,
  listTelemetryEvents: telemetry.handleListEvents,
  listTelemetryLogs: telemetry.handleListLogs,
  reportInventory: inventory.handleReport,
  getStackTree: inventory.handleGetTree,
  previewFlow: forward.handlePreviewFlow,
  listFlows: flows.handleList,
  getFlow: flows.handleGet,
  createFlowOrder: flows.handleCreateOrder,
  listPipelines: forward.handleListPipelines,
  explainPipeline: forward.handleExplainPipeline,
  startRun: forward.handleStartRun,
  listPromotions: forward.handleListPromotions,
  decidePromotion: forward.handleDecidePromotion,
  retryPromotion: forward.handleRetryPromotion,
  abortPromotion: forward.handleAbortPromotion,
  createDiagnosticRequest: diagnostics.handleCreate,
  getPendingDiagnostics: diagnostics.handlePending,
  getDiagnostic: diagnostics.handleGet,
  claimDiagnostic: diagnostics.handleClaim,
  submitDiagnosticResult: diagnostics.handleResult,
  reloadConfig: operation.handleReload,
  listWsConnections: live.handleListConnections,
}
