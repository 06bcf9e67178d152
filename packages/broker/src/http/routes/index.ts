// Every handler by the name of its endpoint; the compiler finds the missing one.
import type { BrokerDeps } from '../../deps.ts'
import type { Handlers } from '../handler.ts'
import * as adminPaks from './admin-paks.ts'
import * as agentEvents from './agent-events.ts'
import * as agentMarks from './agent-marks.ts'
import * as agentReach from './agent-reach.ts'
import * as reports from './agent-reports.ts'
import * as agents from './agents.ts'
import * as audit from './audit.ts'
import * as auth from './auth.ts'
import * as objects from './deployment-objects.ts'
import * as fleet from './fleet.ts'
import * as generators from './generators.ts'
import * as health from './health.ts'
import * as sessions from './sessions.ts'
import * as stackMarks from './stack-marks.ts'
import * as stacks from './stacks.ts'
import * as targetState from './target-state.ts'

export const handlers: Handlers<BrokerDeps> = {
  verifyPak: auth.verifyPak,
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
  watch: reports.handleWatch,
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
  rollbackStack: objects.handleRollback,
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
  getDeploymentHealth: health.handleOfObject,
  listAdminPaks: adminPaks.handleList,
  createAdminPak: adminPaks.handleCreate,
  rotateAdminPak: adminPaks.handleRotate,
  revokeAdminPak: adminPaks.handleRevoke,
  createSession: sessions.handleCreate,
  deleteSession: sessions.handleDelete,
  listAuditLogs: audit.handleList,
}
