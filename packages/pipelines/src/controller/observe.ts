// Reads all targets of a Pipeline from the watches: what is there, what is not, and what cannot be known now. No network.
import type { PipelineSpec, Target } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { readApp } from '../apps/index.ts'
import type { Clusters } from '../clusters/clusters.ts'
import { appNamespace, clusterIdOf, isStackApp, LOCAL } from '../clusters/used-set.ts'
import type { ObservedEnvironment, ObservedTarget } from '../decide/observed.ts'
import type { PipelineRecord } from '../objects.ts'
import { readStack } from '../stacks/read-stack.ts'
import { findStackAccess, stackNameOf } from '../stacks/stack-access.ts'
import type { StackStates } from '../stacks/stack-states.ts'

export interface ObserverDeps {
  readonly clusters: Pick<Clusters, 'find' | 'findProblem'>
  readonly clock: Clock
  readonly stacks: Pick<StackStates, 'find'>
  /** Address of the broker for strategies that name none. */
  readonly brokerUrl: string | null
  /** Refuses clusters of other namespaces. */
  readonly noCrossNamespaceRefs: boolean
}

type Reading = Omit<ObservedTarget, 'revisionChangedAtMs'>

const nothing: Reading = { presence: 'present', ready: false, revision: null, error: null, problem: null }

export class Observer {
  readonly #deps: ObserverDeps
  /** Revisions that this process saw last, by Pipeline and target, with monotonic times: the time of a change is not in any object. */
  readonly #seen = new Map<string, Map<string, { revision: string | null; changedAtMs: number }>>()

  constructor(deps: ObserverDeps) {
    this.#deps = deps
  }

  observe(pipeline: PipelineRecord, spec: PipelineSpec, trigger: 'Watch' | 'Webhook'): ObservedEnvironment[] {
    return spec.environments.map(({ name, targets }) => ({
      name,
      targets: targets.map((target, index) => {
        const reading = trigger === 'Watch' ? this.#read(pipeline, spec, target, name) : this.#readCluster(pipeline, target)
        return { ...reading, revisionChangedAtMs: this.#noteRevision(pipeline.key, `${name}|${index}`, reading) }
      }),
    }))
  }

  forget(pipelineKey: string): void {
    this.#seen.delete(pipelineKey)
  }

  #readCluster(pipeline: PipelineRecord, target: Target): Reading {
    const cluster = clusterIdOf(target.clusterRef, pipeline.namespace)
    if (target.clusterRef === undefined || cluster === LOCAL) return nothing
    const problem = this.#crossesNamespace(pipeline, target) ?? this.#deps.clusters.findProblem(target.clusterRef, cluster)
    return problem === null ? nothing : { ...nothing, presence: 'indefinite', ...problem }
  }

  #read(pipeline: PipelineRecord, spec: PipelineSpec, target: Target, environment: string): Reading {
    const crossing = this.#crossesNamespace(pipeline, target)
    if (crossing !== null) return { ...nothing, presence: 'indefinite', ...crossing }
    if (isStackApp(spec.appRef)) return this.#readStack(pipeline, spec, target, environment)
    const cluster = clusterIdOf(target.clusterRef, pipeline.namespace)
    const namespace = appNamespace(target, pipeline.namespace)
    const lookup = this.#deps.clusters.find({ ref: target.clusterRef, cluster, kind: spec.appRef, namespace, name: spec.appRef.name })
    if (lookup.state === 'indefinite') return { ...nothing, presence: 'indefinite', problem: lookup.problem, error: lookup.error }
    const name = `${spec.appRef.kind} ${namespace}/${spec.appRef.name}`
    if (lookup.state === 'absent') return { ...nothing, presence: 'absent', problem: 'app-not-found', error: `${name} not found` }
    const { revision, ready, error } = readApp(lookup.object, spec.appRef)
    return { presence: 'present', revision, ready, error: error === null ? null : `${name}: ${error}`, problem: null }
  }

  #readStack(pipeline: PipelineRecord, spec: PipelineSpec, target: Target, environment: string): Reading {
    const access = findStackAccess(pipeline, spec, this.#deps.brokerUrl)
    if ('error' in access) return { ...nothing, presence: 'indefinite', problem: 'cluster-unusable', error: access.error }
    const stack = stackNameOf(pipeline, spec, target)
    const lookup = this.#deps.stacks.find({ access, stack })
    if (lookup.state === 'indefinite') return { ...nothing, presence: 'indefinite', problem: lookup.problem, error: lookup.error }
    if (lookup.state === 'absent')
      return { ...nothing, presence: 'absent', problem: 'app-not-found', error: `stack ${stack} not found, or without a deployment object` }
    const owner = `${pipeline.namespace}:${pipeline.name}:${environment}`
    const { revision, ready, error } = readStack(lookup.value, { mode: access.mode, owner })
    return { presence: 'present', revision, ready, error: error === null ? null : `stack ${stack}: ${error}`, problem: null }
  }

  #crossesNamespace(pipeline: PipelineRecord, { clusterRef }: Target): { problem: 'cluster-unusable'; error: string } | null {
    const isForeign = clusterRef?.namespace !== undefined && clusterRef.namespace !== '' && clusterRef.namespace !== pipeline.namespace
    if (!this.#deps.noCrossNamespaceRefs || !isForeign) return null
    return {
      problem: 'cluster-unusable',
      error: `clusterRef names namespace ${clusterRef.namespace}, and references across namespaces are not allowed`,
    }
  }

  /** A target that cannot be read now keeps its last revision, so that its return is no change. */
  #noteRevision(pipelineKey: string, target: string, reading: Reading): number | null {
    const own = this.#seen.get(pipelineKey) ?? new Map<string, { revision: string | null; changedAtMs: number }>()
    this.#seen.set(pipelineKey, own)
    const before = own.get(target)
    if (reading.presence === 'indefinite') return before === undefined ? null : this.#toWallMs(before.changedAtMs)
    if (before !== undefined && before.revision === reading.revision) return this.#toWallMs(before.changedAtMs)
    // What changed before this process started is not known: the first sight counts as the change, so that a restart orders nothing twice.
    const changedAtMs = this.#deps.clock.monotonicMs()
    own.set(target, { revision: reading.revision, changedAtMs })
    return this.#toWallMs(changedAtMs)
  }

  /** By the wall clock of now: a clock that is set back does not prolong the pause after a change. */
  #toWallMs(monotonicMs: number): number {
    const { clock } = this.#deps
    return clock.now() - (clock.monotonicMs() - monotonicMs)
  }
}
