// Watches the members of all stacks, metadata alone, one watch per kind in use, and tells which member another hand may have
// changed or taken away. It decides nothing: whoever is told looks again, and a dry run says whether anything differs.
import type { Member } from '@brokkr/kube/applyset.ts'
import { type Informer, startInformer } from '@brokkr/kube/informer.ts'
import type { Change } from '@brokkr/kube/informer-cache.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { apiVersionOf, type GroupKind, groupKindText, type Kind, nameKey, selectorOf } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type CleanMarks, type Seen, seenOf } from './clean-marks.ts'
import { OWNER_LABEL } from './marks.ts'
import type { MemberIndex } from './member-index.ts'

export interface DriftDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly members: MemberIndex
  readonly clean: CleanMarks
  /** The only namespaces that may be looked into; null: the whole cluster. */
  readonly namespaces: () => readonly string[] | null
  /** Something about a member changed, if only its status. */
  readonly onSeen?: (stackId: string) => void
}
export interface DriftWatch {
  /** While a stack is worked on, what is seen of it is kept: our own writes look like anybody's until they are marked. */
  pause(stackId: string): void
  resume(stackId: string): void
  /** Starts watches that could not start before, as for a kind that was not served. */
  refresh(): void
  /** The member as its watch shows it right now; undefined: it does not, so whoever must know has to ask. */
  seen(member: Member): { readonly kind: Kind; readonly seen: Seen } | undefined
  stop(): Promise<void>
}
/** The server says something about once a minute, if only that nothing has changed. */
const contactMs = 90_000

export function startDriftWatch(deps: DriftDeps, agentId: string, onSuspect: (stackId: string, key: string) => void): DriftWatch {
  const watch = new Watch(deps, agentId, onSuspect)
  deps.members.onKinds(() => watch.refresh())
  watch.refresh()
  return watch
}

class Watch implements DriftWatch {
  readonly #deps: DriftDeps
  readonly #agentId: string
  readonly #onSuspect: (stackId: string, key: string) => void
  /** Null while the kind is looked up. */
  readonly #informers = new Map<string, Informer<Seen> | null>()
  readonly #paused = new Map<string, Map<string, Change<Seen>>>()
  #isStopped = false

  constructor(deps: DriftDeps, agentId: string, onSuspect: (stackId: string, key: string) => void) {
    this.#deps = deps
    this.#agentId = agentId
    this.#onSuspect = onSuspect
  }

  pause(stackId: string): void {
    this.#paused.set(stackId, new Map())
  }

  resume(stackId: string): void {
    const kept = this.#paused.get(stackId)
    this.#paused.delete(stackId)
    for (const change of kept?.values() ?? []) this.#take(change)
  }

  refresh(): void {
    if (this.#isStopped) return
    const places = this.#deps.namespaces() ?? ['']
    const wanted = new Map<string, { kind: GroupKind; namespace: string }>(
      this.#deps.members
        .kinds()
        .flatMap((kind) => places.map((namespace) => [`${groupKindText(kind)} ${namespace}`, { kind, namespace }] as const)),
    )
    for (const [name, { kind, namespace }] of wanted) if (!this.#informers.has(name)) void this.#start(name, kind, namespace)
    for (const [name, informer] of this.#informers) {
      if (wanted.has(name) || informer === null) continue
      this.#informers.delete(name)
      void informer.stop()
    }
  }

  seen(member: Member): { readonly kind: Kind; readonly seen: Seen } | undefined {
    const kind = groupKindText(member)
    const informer = this.#informers.get(`${kind} `) ?? this.#informers.get(`${kind} ${member.namespace}`)
    if (!informer?.synced || informer.lastError !== undefined || informer.contactAgeMs > contactMs) return undefined
    const seen = informer.get(nameKey(member))
    return seen && { kind: informer.kind, seen }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all([...this.#informers.values()].filter((informer) => informer !== null).map((informer) => informer.stop()))
  }

  async #start(name: string, kind: GroupKind, namespace: string): Promise<void> {
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
          project: seenOf,
        },
      )
      this.#informers.set(name, informer)
      informer.onChange((change) => this.#take(change))
    } catch (error) {
      this.#informers.delete(name)
      log.debug('kind not watched yet', { kind: name, why: errorText(error) })
    }
  }

  #take(change: Change<Seen>): void {
    const { type, value } = change
    for (const stackId of this.#deps.members.holdersOf(value.key)) this.#deps.onSeen?.(stackId)
    // By name alone: an object that the stack makes anew right now has a uid that nobody has noted yet.
    const busy = this.#deps.members.holdersOf(value.key).find((stackId) => this.#paused.has(stackId))
    if (busy !== undefined) {
      this.#paused.get(busy)?.set(`${value.key} ${value.uid}`, change)
      return
    }
    const stacks = this.#deps.members.stacksOf(value.key, value.uid)
    if (type === 'deleted') this.#deps.clean.forget(value.key, value.uid)
    if (stacks.length === 0 || (type !== 'deleted' && !this.#deps.clean.isSuspect(value))) return
    for (const stackId of stacks) this.#onSuspect(stackId, value.key)
  }
}
