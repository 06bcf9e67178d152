// How the agent stands to its neighbours, for readiness, for /health and for logs that speak only when something changes.

export interface StandingView {
  /** This process may write: it holds the Lease. */
  readonly isHolder: () => boolean
  readonly isFrozen: () => boolean
}

export class Standing {
  #start: string | null = 'starting'
  #cluster: string | null = null
  #broker: string | null = 'not asked yet'
  #lastHeartbeatMs: number | null = null
  #status = 'ACTIVE'
  #view: StandingView = { isHolder: () => true, isFrozen: () => false }
  #onStatus: () => void = () => undefined

  watch(view: StandingView): void {
    this.#view = view
  }

  /** Called when the broker calls us something else than before. */
  onStatus(listener: () => void): void {
    this.#onStatus = listener
  }

  /** Null: the start is over. */
  starting(why: string | null): void {
    this.#start = why
  }

  /** Null: it answers. */
  cluster(why: string | null): void {
    this.#cluster = why
  }

  /** True: from well to not well or back. */
  broker(why: string | null, atMs: number): boolean {
    const isChanged = (why === null) !== (this.#broker === null)
    this.#broker = why
    if (why === null) this.#lastHeartbeatMs = atMs
    return isChanged
  }

  /** ACTIVE works; anything else pauses. */
  called(status: string): void {
    if (status === this.#status) return
    this.#status = status
    this.#onStatus()
  }

  get status(): string {
    return this.#status
  }
  get isClusterWell(): boolean {
    return this.#cluster === null
  }
  get isBrokerWell(): boolean {
    return this.#broker === null
  }
  get clusterProblem(): string | null {
    return this.#cluster
  }
  get brokerProblem(): string | null {
    return this.#broker
  }
  get lastHeartbeatMs(): number | null {
    return this.#lastHeartbeatMs
  }

  /** Null: ready. A broker that is away is no reason: what runs goes on without it. */
  get notReady(): string | null {
    if (this.#start !== null) return this.#start
    if (this.#cluster !== null) return this.#cluster
    if (!this.#view.isHolder()) return 'standby: another process holds the Lease'
    return this.#view.isFrozen() ? 'frozen: the broker refuses the key' : null
  }
}
