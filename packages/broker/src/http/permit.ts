// The whole permission policy: one rule per endpoint, in the words of the wire's own page. check-permit.ts reads them; no
// handler checks an identity itself.
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import type { ErrorCode } from '@brokkr/contract/error.ts'
import type { Principal } from './handler.ts'

/** A admin · G generator, Go the one that owns the thing · Ag the very agent of the path, Ag* any agent, At one that has the stack. */
export type Who = 'A' | 'G' | 'Go' | 'Ag' | 'Ag*' | 'At'
export interface Rule {
  readonly who: readonly Who[]
  /** The code every other caller gets; apart for generators and agents where the wire tells them apart. */
  readonly denied: ErrorCode | Readonly<Record<Principal['kind'], ErrorCode>>
  /** What must exist before ownership is looked at; left out when the operation itself answers for missing things. */
  readonly thing?: Thing
  /** Open to callers of these kinds whatever id the path holds. */
  readonly openPath?: true
  /** A field of the body that must name the calling generator. */
  readonly ownGenerator?: { readonly field: string; readonly denied: ErrorCode }
  /** Only for callers who brought a key, or only for those who brought a session's cookie. */
  readonly credential?: 'pak' | 'session'
}
export interface Thing {
  readonly kind: 'agent' | 'generator' | 'stack' | 'deploymentObject'
  readonly in: 'params' | 'body'
  readonly field: string
  /** A deleted one still counts, for admins and for agents that have to remove it. */
  readonly deletedToo?: true
}

const adminOnly = { who: ['A'], denied: 'admin_required' } as const
const agent = { kind: 'agent', in: 'params', field: 'id' } as const
const stack = { kind: 'stack', in: 'params', field: 'id' } as const
const agentItself = { who: ['A', 'Ag'], denied: 'agent_pak_mismatch', thing: agent } as const
const agentAlone = { who: ['Ag'], denied: 'agent_pak_mismatch' } as const
const stackOwner = { who: ['A', 'Go'], denied: 'stack_not_owned', thing: stack } as const
const targetDenied = { admin: 'forbidden', generator: 'target_generator_mismatch', agent: 'target_create_denied' } as const
const associated = { admin: 'forbidden', generator: 'generator_not_associated', agent: 'agent_not_associated' } as const

export const rules = {
  verifyPak: { who: ['A', 'G', 'Ag*'], denied: 'forbidden' },
  listAgents: { who: ['A', 'G'], denied: 'generator_required' },
  createAgent: adminOnly,
  getAgent: agentItself,
  agentsListLabels: agentItself,
  agentsAddLabel: adminOnly,
  agentsRemoveLabel: adminOnly,
  listTargets: agentItself,
  addTarget: { who: ['A', 'Go'], denied: targetDenied, thing: { kind: 'stack', in: 'body', field: 'stack_id' }, openPath: true },
  removeTarget: { who: ['A', 'Go'], denied: targetDenied, thing: { kind: 'stack', in: 'params', field: 'stack_id' }, openPath: true },
  recordHeartbeat: agentAlone,
  getTargetState: agentItself,
  agentStream: agentAlone,
  reportStatus: agentAlone,
  watch: adminOnly,
  listEvents: agentItself,
  createEvent: agentItself,
  listGenerators: adminOnly,
  createGenerator: adminOnly,
  registerAgent: { who: ['A', 'Ag*'], denied: 'forbidden', thing: { kind: 'generator', in: 'params', field: 'id' }, openPath: true },
  listStacks: { who: ['A', 'G'], denied: 'stacks_list_denied' },
  createStack: {
    who: ['A', 'G'],
    denied: 'stack_create_denied',
    ownGenerator: { field: 'generator_id', denied: 'stack_generator_mismatch' },
  },
  getStack: stackOwner,
  deleteStack: stackOwner,
  stacksListLabels: { who: ['A', 'Go', 'At'], denied: 'stack_not_accessible', thing: { ...stack, deletedToo: true } },
  stacksAddLabel: stackOwner,
  stacksRemoveLabel: stackOwner,
  getStackStatus: stackOwner,
  createDeploymentObject: stackOwner,
  listDeploymentObjects: stackOwner,
  getDeploymentObject: { who: ['A', 'Go', 'At'], denied: associated, thing: { kind: 'deploymentObject', in: 'params', field: 'id' } },
  listAdminPaks: adminOnly,
  createAdminPak: adminOnly,
  rotateAdminPak: adminOnly,
  revokeAdminPak: adminOnly,
  createSession: { who: ['A', 'G'], denied: 'forbidden', credential: 'pak' },
  deleteSession: { who: ['A', 'G'], denied: 'forbidden', credential: 'session' },
  listAuditLogs: adminOnly,
  getConfig: adminOnly,
  listTasks: adminOnly,
} as const satisfies Record<EndpointName, Rule>
