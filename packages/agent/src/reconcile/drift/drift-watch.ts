// Watches the metadata of all members, one informer per kind in use, and names members that another writer may have changed or
// deleted. It decides nothing: the attempt that follows compares the member by a dry run.
import {
  apiVersionOf,
  type Change,
  type GroupKind,
  groupKindText,
  type Informer,
  type Kind,
  type Kube,
  type Member,
  nameKey,
  selectorOf,
  startInformer,
} from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { MemberIndex } from '../member-index.ts'
import { OWNER_LABEL } from '../plan/ownership-metadata.ts'
import { type ObservedVersion, toObservedVersion, type VerifiedVersions } from './verified-versions.ts'

export interface DriftWatchDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly members: MemberIndex
  readonly verifiedVersions: VerifiedVersions
  /** The only namespaces that may be watched; null: the whole cluster. */
  readonly namespaces: () => readonly string[] | null
}
/** The API server sends a bookmark about once a minute, so a longer silence means that the watch is stale. */
const contactMs = 90_000

export class DriftWatch {
  readonly #deps: DriftWatchDeps
  readonly #agentId: string
  readonly #candidateListeners = new Set<(stackId: string, key: string) => void>()
  readonly #observedListeners = new Set<(stackId: string) => void>()
  /** Null while discovery resolves the kind. */
  readonly #informers = new Map<string, Informer<ObservedVersion> | null>()
  readonly #paused = new Map<string, Map<string, Change<ObservedVersion>>>()
  #isStopped = false

  constructor(deps: DriftWatchDeps, agentId: string) {
    this.#deps = deps
    this.#agentId = agentId
  }

  /** Called with a member that another writer may have changed or deleted. */
  onCandidate(listener: (stackId: string, key: string) => void): void {
    this.#candidateListeners.add(listener)
  }

  /** Called after any change of a member, also of its status alone. */
  onObserved(listener: (stackId: string) => void): void {
    this.#observedListeners.add(listener)
  }

  start(): void {
    this.#deps.members.onKinds(() => this.refresh())
    this.refresh()
  }

  /** Defers the changes of a stack during an attempt: its own writes look foreign until their versions are recorded. */
  pause(stackId: string): void {
    this.#paused.set(stackId, new Map())
  }

  resume(stackId: string): void {
    const deferred = this.#paused.get(stackId)
    this.#paused.delete(stackId)
    for (const change of deferred?.values() ?? []) this.#process(change)
  }

  /** Starts watches that could not start before, for example of a kind that was not served, and stops unused ones. */
  refresh(): void {
    if (this.#isStopped) return
    const namespaces = this.#deps.namespaces() ?? ['']
    const needed = new Map<string, { kind: GroupKind; namespace: string }>(
      this.#deps.members
        .kinds()
        .flatMap((kind) => namespaces.map((namespace) => [`${groupKindText(kind)} ${namespace}`, { kind, namespace }] as const)),
    )
    for (const [name, { kind, namespace }] of needed) if (!this.#informers.has(name)) void this.#startInformer(name, kind, namespace)
    for (const [name, informer] of this.#informers) {
      if (needed.has(name) || informer === null) continue
      this.#informers.delete(name)
      void informer.stop()
    }
  }

  /** Returns the member as its watch shows it now; undefined if no current watch covers it. */
  findObserved(member: Member): { readonly kind: Kind; readonly seen: ObservedVersion } | undefined {
    const kind = groupKindText(member)
    const informer = this.#informers.get(`${kind} `) ?? this.#informers.get(`${kind} ${member.namespace}`)
    if (!informer?.synced || informer.lastError !== undefined || informer.contactAgeMs > contactMs) return undefined
    const observed = informer.get(nameKey(member))
    return observed && { kind: informer.kind, seen: observed }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all([...this.#informers.values()].filter((informer) => informer !== null).map((informer) => informer.stop()))
  }

  async #startInformer(name: string, kind: GroupKind, namespace: string): Promise<void> {
    const { kube, clock, log } = this.#deps
    this.#informers.set(name, null)
    try {
      const { group, version } = await kube.discovery.resolveGroupKind(kind)
      if (this.#isStopped) return
      const informer = startInformer(
        { kube, clock, log },
        {
          kind: { apiVersion: apiVersionOf(group, version), kind: kind.kind },
          namespace,
          labelSelector: selectorOf({ [OWNER_LABEL]: this.#agentId }),
          metadataOnly: true,
          project: toObservedVersion,
        },
      )
      this.#informers.set(name, informer)
      informer.onChange((change) => this.#process(change))
    } catch (error) {
      this.#informers.delete(name)
      log.debug('kind not watched yet', { kind: name, why: errorText(error) })
    }
  }

  #process(change: Change<ObservedVersion>): void {
    const { members, verifiedVersions } = this.#deps
    const { type, value } = change
    const holders = members.findHolders(value.key)
    for (const stackId of holders) for (const listener of this.#observedListeners) listener(stackId)
    // By name alone: the stack may be creating the object right now, and its uid is not recorded yet.
    const paused = holders.find((stackId) => this.#paused.has(stackId))
    if (paused !== undefined) {
      this.#paused.get(paused)?.set(`${value.key} ${value.uid}`, change)
      return
    }
    const stackIds = members.findStacks(value.key, value.uid)
    if (type === 'deleted') verifiedVersions.forget(value.key, value.uid)
    if (stackIds.length === 0 || (type !== 'deleted' && !verifiedVersions.isSuspect(value))) return
    for (const stackId of stackIds) for (const listener of this.#candidateListeners) listener(stackId, value.key)
  }
}
