// Every handler by the name of its endpoint; the compiler finds the missing one.
import type { BrokerDeps } from '../../deps.ts'
import type { Handlers } from '../handler.ts'
import * as adminPaks from './admin-paks.ts'
import * as reports from './agent-reports.ts'
import * as agents from './agents.ts'
import * as audit from './audit.ts'
import * as auth from './auth.ts'
import * as objects from './deployment-objects.ts'
import * as generators from './generators.ts'
import * as operation from './operation.ts'
import * as sessions from './sessions.ts'
import * as stacks from './stacks.ts'

export const handlers: Handlers<BrokerDeps> = {
  verifyPak: auth.verifyPak,
  listAgents: agents.handleListAgents,
  createAgent: agents.handleCreateAgent,
  getAgent: agents.handleGetAgent,
  agentsListLabels: agents.handleListLabels,
  agentsAddLabel: agents.handleAddLabel,
  agentsRemoveLabel: agents.handleRemoveLabel,
  listTargets: agents.handleListTargets,
  addTarget: agents.handleAddTarget,
  removeTarget: agents.handleRemoveTarget,
  recordHeartbeat: agents.handleHeartbeat,
  getTargetState: objects.handleTargetState,
  agentStream: reports.handleStream,
  reportStatus: reports.handleReportStatus,
  watch: reports.handleWatch,
  listEvents: reports.handleListEvents,
  createEvent: reports.handleCreateEvent,
  listGenerators: generators.handleListGenerators,
  createGenerator: generators.handleCreateGenerator,
  registerAgent: generators.handleRegister,
  listStacks: stacks.handleListStacks,
  createStack: stacks.handleCreateStack,
  getStack: stacks.handleGetStack,
  deleteStack: stacks.handleDeleteStack,
  stacksListLabels: stacks.handleListLabels,
  stacksAddLabel: stacks.handleAddLabel,
  stacksRemoveLabel: stacks.handleRemoveLabel,
  getStackStatus: stacks.handleGetStatus,
  createDeploymentObject: objects.handleCreate,
  listDeploymentObjects: objects.handleList,
  getDeploymentObject: objects.handleGet,
  listAdminPaks: adminPaks.handleList,
  createAdminPak: adminPaks.handleCreate,
  rotateAdminPak: adminPaks.handleRotate,
  revokeAdminPak: adminPaks.handleRevoke,
  createSession: sessions.handleCreate,
  deleteSession: sessions.handleDelete,
  listAuditLogs: audit.handleList,
  getConfig: operation.handleGetConfig,
  listTasks: operation.handleListTasks,
}
