// Dependencies of all reconcile steps: the client, the known state of the cluster, and the settings.
import type { KeyObject } from 'node:crypto'
import type { ApplyOptions, Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { Policy } from '../policy/policy.ts'
import type { VerifiedVersions } from './drift/verified-versions.ts'
import type { MemberIndex } from './member-index.ts'
import type { PruneGuard } from './plan/prune-guard.ts'
import type { SignatureRules } from './plan/signature.ts'
import type { PruneApprovals } from './prune/prune-approvals.ts'
import type { GeneratorRules, StackGenerators } from './stack-generators.ts'
import type { StackParents } from './stack-parents.ts'

export interface ReconcileDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly metrics: AgentMetrics
  readonly parents: StackParents
  readonly members: MemberIndex
  readonly verifiedVersions: VerifiedVersions
  readonly generators: StackGenerators
  readonly approvals: PruneApprovals
  readonly agentId: string
  readonly hashKey: KeyObject
  readonly settings: {
    readonly policy: Policy
    readonly defaultNamespace: string
    readonly tenants: GeneratorRules
    readonly pruneGuard: PruneGuard
    readonly signatures: SignatureRules
    readonly adoption: 'unowned' | 'never' | 'any'
    readonly adoptFrom: readonly string[]
    readonly applyConcurrency: number
    readonly dryRun: boolean
    readonly fieldValidation: NonNullable<ApplyOptions['fieldValidation']>
    readonly crdWaitMs: number
    /** Time that one attempt waits until deleted objects are gone. */
    readonly goneWaitMs: number
  }
}
