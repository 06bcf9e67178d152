// Leader election by a Lease object. Clocks of machines are never compared: a candidate takes the Lease after it did not change for its whole
// duration by the candidate's own clock. The holder trusts it only for the fence, a shorter time from before its last renewal was sent. The
// old holder therefore stops before the new one starts, as long as clocks run at about the same speed.
import { addJitter } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Kube } from '../client/kube.ts'
import { hasReason } from '../client/kube-error.ts'
import { Fence } from './lease-fence.ts'
import { emptyLease, type LeaseObject, leaseDurationMs, leaseHolder, releasedLease, takenLease } from './lease-object.ts'

export interface ElectionOptions {
  name: string
  namespace: string
  /** Unique for this start of the process. */
  identity: string
  /** Default 15 s. */
  durationMs?: number | undefined
  /** Default a third of the duration. */
  renewEveryMs?: number | undefined
  /** How long a renewal is trusted; default two thirds of the duration. */
  fenceMs?: number | undefined
  /** Interval of a candidate's reads, and of a holder's attempts after a failed renewal. Default 2 s. */
  retryEveryMs?: number | undefined
}

/** One period of holding the Lease. */
export interface Term {
  /** Increases with every change of holder: a smaller epoch is outdated. */
  epoch: number
  /** Of the Lease object: epochs of a Lease that was deleted and created again start anew. */
  leaseUid: string
  /** Aborted when the term ends. Suspended code may run before that, so check `held()` before every effect. */
  signal: AbortSignal
}

export interface Election {
  readonly identity: string
  /** Whether this process holds the Lease right now. Never true for two processes at once. */
  held(): boolean
  /** Throws if the Lease is not held; for use as the `guard` of a client. */
  assertHeld(): void
  readonly term: Term | undefined
  /** The other holder at the last read; null if there is none or this process holds the Lease. */
  readonly rival: string | null
  /** Called when a term begins or ends, and when another holder is seen. */
  onChange(listener: () => void): void
  /** Resolves with the current term, or the next one. */
  whenHeld(signal?: AbortSignal): Promise<Term>
  /** Releases the Lease, so that the next holder need not wait for its expiry. */
  stop(): Promise<void>
}

export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
}

export function startElection(deps: { kube: Kube; clock: Clock; log: Log }, options: ElectionOptions): Election {
  return new Candidate(deps, options)
}

class Candidate implements Election {
  readonly identity: string
  readonly #deps: { kube: Kube; clock: Clock; log: Log }
  readonly #at: { name: string; namespace: string }
  readonly #times: { durationMs: number; renewEveryMs: number; fenceMs: number; retryEveryMs: number }
  readonly #stopping = new AbortController()
  readonly #waiters = new Set<(term: Term) => void>()
  readonly #listeners = new Set<() => void>()
  readonly #fence: Fence
  readonly #running: Promise<void>
  #live: LeaseObject | undefined
  #seen: { version: string; atMs: number } | undefined
  #term: (Term & { end: AbortController }) | undefined
  #rival: string | null = null

  constructor(deps: { kube: Kube; clock: Clock; log: Log }, options: ElectionOptions) {
    const durationMs = options.durationMs ?? 15_000
    this.identity = options.identity
    this.#deps = deps
    this.#at = { name: options.name, namespace: options.namespace }
    this.#times = {
      durationMs,
      renewEveryMs: options.renewEveryMs ?? durationMs / 3,
      fenceMs: options.fenceMs ?? (durationMs * 2) / 3,
      retryEveryMs: options.retryEveryMs ?? Math.min(2_000, durationMs / 3),
    }
    if (this.#times.fenceMs >= durationMs || this.#times.renewEveryMs >= this.#times.fenceMs)
      throw new RangeError('a Lease needs renewEveryMs < fenceMs < durationMs')
    this.#fence = new Fence(deps.clock, this.#times.fenceMs, () => this.#end('ran out'))
    this.#running = this.#run()
  }

  held(): boolean {
    return this.#fence.holds()
  }

  assertHeld(): void {
    if (!this.held()) throw new LeaseLost(`Lease ${this.#at.namespace}/${this.#at.name} is not held by ${this.identity}`)
  }

  get term(): Term | undefined {
    return this.held() ? this.#term : undefined
  }

  get rival(): string | null {
    return this.held() ? null : this.#rival
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  async whenHeld(signal?: AbortSignal): Promise<Term> {
    if (this.term) return this.term
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<Term>()
    const abort = (): void => reject(signal?.reason as Error)
    signal?.addEventListener('abort', abort, { once: true })
    this.#waiters.add(resolve)
    return promise.finally(() => {
      this.#waiters.delete(resolve)
      signal?.removeEventListener('abort', abort)
    })
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the election was stopped'))
    await this.#running
    const live = this.#live
    const ours = this.held() && live !== undefined
    this.#end('stopped')
    if (ours) await this.#deps.kube.replace(releasedLease(live), this.#call()).catch((error: unknown) => this.#note('release', error))
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const waitMs = await this.#step().catch((error: unknown) => {
        this.#note(this.#fence.isUp ? 'renew' : 'look', error)
        return this.#times.retryEveryMs
      })
      await this.#deps.clock.sleep(addJitter(waitMs, 0.1), signal).catch(() => undefined)
    }
  }

  /** Reads or renews the Lease once. Returns the time to the next call. */
  async #step(): Promise<number> {
    if (this.#fence.isUp && !this.held()) this.#end('ran out')
    if (this.#fence.isUp && this.#live) return this.#renew(this.#live)
    const live = await this.#read()
    // The Lease has our identity without a term: the response to our write was lost. Identities are unique, so it can be taken again.
    const isFree = !live || ['', this.identity].includes(leaseHolder(live)) || this.#isStale(live)
    if (!isFree) return this.#times.retryEveryMs
    return this.#take(live ?? emptyLease(this.#at), live === undefined)
  }

  async #read(): Promise<LeaseObject | undefined> {
    const live = (await this.#deps.kube.find({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...this.#at }, this.#call())) as
      | LeaseObject
      | undefined
    const version = live?.metadata.resourceVersion ?? ''
    if (this.#seen?.version !== version) this.#seen = { version, atMs: this.#deps.clock.monotonicMs() }
    const holder = live ? leaseHolder(live) : ''
    const rival = holder === '' || holder === this.identity ? null : holder
    const isNew = rival !== null && rival !== this.#rival
    this.#rival = rival
    if (isNew) this.#tell()
    return live
  }

  /** True if the Lease did not change for its whole duration, by the local clock. */
  #isStale(live: LeaseObject): boolean {
    return this.#deps.clock.monotonicMs() - (this.#seen?.atMs ?? Number.POSITIVE_INFINITY) >= leaseDurationMs(live)
  }

  async #take(live: LeaseObject, isNew: boolean): Promise<number> {
    const sendTimes = this.#fence.sending()
    const lease = takenLease(live, { identity: this.identity, durationMs: this.#times.durationMs, nowMs: this.#deps.clock.now() })
    try {
      this.#live = (await (isNew
        ? this.#deps.kube.create(lease, this.#call())
        : this.#deps.kube.replace(lease, this.#call()))) as LeaseObject
    } catch (error) {
      // Another candidate was first.
      if (hasReason(error, 'Conflict', 'AlreadyExists')) return this.#times.retryEveryMs
      throw error
    }
    this.#fence.believe(sendTimes)
    // The previous holder is forgotten, so that an expired term of ours is not reported as taken by it.
    this.#rival = null
    this.#begin(this.#live)
    return this.#times.renewEveryMs
  }

  async #renew(live: LeaseObject): Promise<number> {
    const sendTimes = this.#fence.sending()
    const lease = takenLease(live, { identity: this.identity, durationMs: this.#times.durationMs, nowMs: this.#deps.clock.now() })
    let renewed: LeaseObject
    try {
      renewed = (await this.#deps.kube.replace(lease, this.#call())) as LeaseObject
    } catch (error) {
      if (!hasReason(error, 'Conflict', 'NotFound')) throw error
      const now = await this.#read()
      if (!now || leaseHolder(now) !== this.identity) this.#end(now ? `taken by ${leaseHolder(now)}` : 'the Lease was deleted')
      // Still held: a label was added, or the response to our renewal was lost.
      else this.#live = now
      return 0
    }
    const lapsed = !this.held()
    if (lapsed) this.#end('expired during its renewal')
    this.#live = renewed
    this.#fence.believe(sendTimes)
    if (lapsed) this.#begin(renewed)
    return this.#times.renewEveryMs
  }

  #begin(live: LeaseObject): void {
    if (!this.held()) return
    const end = new AbortController()
    this.#term = { epoch: live.spec.leaseTransitions ?? 0, leaseUid: live.metadata.uid ?? '', signal: end.signal, end }
    this.#deps.log.info('lease acquired', { lease: this.#at.name, epoch: this.#term.epoch })
    for (const waiter of this.#waiters) waiter(this.#term)
    this.#tell()
  }

  #end(why: string): void {
    this.#fence.drop()
    this.#live = undefined
    if (!this.#term) return
    this.#deps.log.info('lease ended', { lease: this.#at.name, epoch: this.#term.epoch, why })
    this.#term.end.abort(new LeaseLost(`Lease ${this.#at.namespace}/${this.#at.name}: ${why}`))
    this.#term = undefined
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }

  #note(what: string, error: unknown): void {
    if (!this.#stopping.signal.aborted) this.#deps.log.warn('lease call failed', { lease: this.#at.name, what, error: String(error) })
  }

  /** Bypasses the limiter and has a short time limit: a renewal that hangs must leave time for another one. */
  #call(): { urgent: true; timeoutMs: number } {
    return { urgent: true, timeoutMs: Math.max(1_000, this.#times.renewEveryMs) }
  }
}
