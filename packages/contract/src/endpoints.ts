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
import {
  addTarget,
  agentsAddLabel,
  agentsListLabels,
  agentsRemoveLabel,
  createAgent,
  getAgent,
  listAgents,
  listTargets,
  recordHeartbeat,
  removeTarget,
} from './agent.ts'
import { listAuditLogs } from './audit.ts'
import { createDeploymentObject, getDeploymentObject, getTargetState, listDeploymentObjects } from './deployment-object.ts'
import type { CallOf, Endpoint, InputOf, OutputOf } from './endpoint.ts'
import { createEvent, listEvents } from './event.ts'
import { createGenerator, listGenerators, registerAgent } from './generator.ts'
import {
  createStack,
  deleteStack,
  getStack,
  getStackStatus,
  listStacks,
  stacksAddLabel,
  stacksListLabels,
  stacksRemoveLabel,
} from './stack.ts'
import { agentStream, reportStatus, watch } from './stream.ts'

export const endpoints = {
  verifyPak,
  listAgents,
  createAgent,
  getAgent,
  agentsListLabels,
  agentsAddLabel,
  agentsRemoveLabel,
  listTargets,
  addTarget,
  removeTarget,
  recordHeartbeat,
  getTargetState,
  agentStream,
  reportStatus,
  watch,
  listEvents,
  createEvent,
  listGenerators,
  createGenerator,
  registerAgent,
  listStacks,
  createStack,
  getStack,
  deleteStack,
  stacksListLabels,
  stacksAddLabel,
  stacksRemoveLabel,
  getStackStatus,
  createDeploymentObject,
  listDeploymentObjects,
  getDeploymentObject,
  listAdminPaks,
  createAdminPak,
  rotateAdminPak,
  revokeAdminPak,
  createSession,
  deleteSession,
  listAuditLogs,
  getConfig,
  listTasks,
} as const satisfies Record<string, Endpoint>

export type Endpoints = typeof endpoints
export type EndpointName = keyof Endpoints
export type Input<N extends EndpointName> = InputOf<Endpoints[N]>
export type Output<N extends EndpointName> = OutputOf<Endpoints[N]>
export type Call<N extends EndpointName> = CallOf<Endpoints[N]>
