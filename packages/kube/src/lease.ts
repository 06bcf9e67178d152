// Leader election on a Lease object. Clocks of machines are never compared: a candidate takes the Lease when it has not changed for its
// whole duration by the candidate's own clock; the holder believes in it only for the fence, a shorter time counted from before its last
// renewal was sent. So the belief of the old holder ends before the new one's begins, as long as clocks run about equally fast.
import { jittered } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { hasReason } from './api-error.ts'
import { Fence } from './fence.ts'
import type { Kube } from './kube.ts'
import { emptyLease, type LeaseObject, leaseDurationMs, leaseHolder, releasedLease, takenLease } from './lease-object.ts'

export interface ElectionOptions {
  name: string
  namespace: string
  /** Of this process and no other, not even of its next start. */
  identity: string
  /** Default 15 s. */
  durationMs?: number | undefined
  /** Default a third of the duration. */
  renewEveryMs?: number | undefined
  /** How long a renewal is believed in; default two thirds of the duration. */
  fenceMs?: number | undefined
  /** Between two looks of a candidate, and between two tries of a holder whose renewal failed. Default 2 s. */
  retryEveryMs?: number | undefined
}

/** One time of holding the Lease. */
export interface Term {
  /** Grows with every change of holder: a smaller one is out of date. */
  epoch: number
  /** Aborted when the term ends. Code that was asleep may run before that, so check `held()` before every effect. */
  signal: AbortSignal
}

export interface Election {
  readonly identity: string
  /** Whether the Lease is ours at this very moment. Never true for two processes at once. */
  held(): boolean
  /** Throws when it is not: to be used as the `guard` of a client. */
  assertHeld(): void
  readonly term: Term | undefined
  /** Somebody else who held it when it was last looked at; null: nobody, or we do. */
  readonly rival: string | null
  /** Called when a term began or ended, and when somebody else is seen to hold it. */
  onChange(listener: () => void): void
  /** The next term, or the one that runs. */
  whenHeld(signal?: AbortSignal): Promise<Term>
  /** Gives the Lease up, so that the next one need not wait for it to run out. */
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
      await this.#deps.clock.sleep(jittered(waitMs, 0.1), signal).catch(() => undefined)
    }
  }

  /** One look or one renewal. Gives the time to the next. */
  async #step(): Promise<number> {
    if (this.#fence.isUp && !this.held()) this.#end('ran out')
    if (this.#fence.isUp && this.#live) return this.#renew(this.#live)
    const live = await this.#read()
    // Our own name without our belief: the answer to our taking it was lost. Nobody else has this name, so it is ours to take again.
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

  /** Unchanged for its whole duration, by our own clock. */
  #isStale(live: LeaseObject): boolean {
    return this.#deps.clock.monotonicMs() - (this.#seen?.atMs ?? Number.POSITIVE_INFINITY) >= leaseDurationMs(live)
  }

  async #take(live: LeaseObject, isNew: boolean): Promise<number> {
    const sent = this.#fence.sending()
    const wanted = takenLease(live, { identity: this.identity, durationMs: this.#times.durationMs, nowMs: this.#deps.clock.now() })
    try {
      this.#live = (await (isNew
        ? this.#deps.kube.create(wanted, this.#call())
        : this.#deps.kube.replace(wanted, this.#call()))) as LeaseObject
    } catch (error) {
      // Somebody else was first.
      if (hasReason(error, 'Conflict', 'AlreadyExists')) return this.#times.retryEveryMs
      throw error
    }
    this.#fence.believe(sent)
    // Whoever had it before us is nobody's rival now: a term that later runs out has not been taken by him.
    this.#rival = null
    this.#begin(this.#live)
    return this.#times.renewEveryMs
  }

  async #renew(live: LeaseObject): Promise<number> {
    const sent = this.#fence.sending()
    const wanted = takenLease(live, { identity: this.identity, durationMs: this.#times.durationMs, nowMs: this.#deps.clock.now() })
    let renewed: LeaseObject
    try {
      renewed = (await this.#deps.kube.replace(wanted, this.#call())) as LeaseObject
    } catch (error) {
      if (!hasReason(error, 'Conflict', 'NotFound')) throw error
      const now = await this.#read()
      if (!now || leaseHolder(now) !== this.identity) this.#end(`taken by ${now ? leaseHolder(now) : 'nobody'}`)
      // Still ours: a label was added or the answer of our own renewal was lost.
      else this.#live = now
      return 0
    }
    const lapsed = !this.held()
    if (lapsed) this.#end('ran out while it was being renewed')
    this.#live = renewed
    this.#fence.believe(sent)
    if (lapsed) this.#begin(renewed)
    return this.#times.renewEveryMs
  }

  #begin(live: LeaseObject): void {
    if (!this.held()) return
    const end = new AbortController()
    this.#term = { epoch: live.spec.leaseTransitions ?? 0, signal: end.signal, end }
    this.#deps.log.info('lease taken', { lease: this.#at.name, epoch: this.#term.epoch })
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

  /** Never behind a backlog, and short: a renewal that hangs must leave time for another. */
  #call(): { urgent: true; timeoutMs: number } {
    return { urgent: true, timeoutMs: Math.max(1_000, this.#times.renewEveryMs) }
  }
}
