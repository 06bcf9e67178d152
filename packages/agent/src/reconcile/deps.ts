// What bringing a stack to a revision needs: the cluster, what we know of it, and the rules of this agent.
import type { KeyObject } from 'node:crypto'
import type { ApplyOptions, Kube } from '@brokkr/kube/kube.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { Policy } from '../policy.ts'
import type { CleanMarks } from './clean-marks.ts'
import type { MemberIndex } from './member-index.ts'
import type { PruneApprovals } from './prune-approvals.ts'
import type { PruneGuard } from './prune-guard.ts'
import type { SignatureRules } from './signature.ts'
import type { StackParents } from './stack-parents.ts'
import type { TenantRules, Tenants } from './tenants.ts'

export interface ReconcileDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly metrics: AgentMetrics
  readonly parents: StackParents
  readonly members: MemberIndex
  readonly clean: CleanMarks
  readonly tenants: Tenants
  readonly approvals: PruneApprovals
  readonly agentId: string
  readonly hashKey: KeyObject
  readonly settings: {
    readonly policy: Policy
    readonly defaultNamespace: string
    readonly tenants: TenantRules
    readonly pruneGuard: PruneGuard
    readonly signatures: SignatureRules
    readonly adoption: 'unowned' | 'never' | 'any'
    readonly adoptFrom: readonly string[]
    readonly applyConcurrency: number
    readonly dryRun: boolean
    readonly fieldValidation: NonNullable<ApplyOptions['fieldValidation']>
    readonly crdWaitMs: number
    /** How long what is being deleted may take to be gone before the rest is left for the next look. */
    readonly goneWaitMs: number
  }
}
