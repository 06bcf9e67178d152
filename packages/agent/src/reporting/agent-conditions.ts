// State of the connections to cluster and broker, for readiness, `/health` and logs of changes.

export interface WriteState {
  /** This process holds the Lease. */
  readonly isHolder: () => boolean
  readonly isFrozen: () => boolean
}

export class AgentConditions {
  #start: string | null = 'starting'
  #cluster: string | null = null
  #broker: string | null = 'not connected yet'
  #lastHeartbeatMs: number | null = null
  #status = 'ACTIVE'
  #writeState: WriteState = { isHolder: () => true, isFrozen: () => false }
  #onStatus: () => void = () => undefined

  setWriteState(writeState: WriteState): void {
    this.#writeState = writeState
  }

  /** Called when the agent status changed. */
  onStatus(listener: () => void): void {
    this.#onStatus = listener
  }

  /** Null: started. */
  setStartProblem(problem: string | null): void {
    this.#start = problem
  }

  /** Null: the API server responds. */
  setClusterProblem(problem: string | null): void {
    this.#cluster = problem
  }

  /** Returns true if the state changed between reachable and unreachable. */
  setBrokerProblem(problem: string | null, atMs: number): boolean {
    const isChanged = (problem === null) !== (this.#broker === null)
    this.#broker = problem
    if (problem === null) this.#lastHeartbeatMs = atMs
    return isChanged
  }

  /** ACTIVE permits writes; any other status pauses the agent. */
  setStatus(status: string): void {
    if (status === this.#status) return
    this.#status = status
    this.#onStatus()
  }

  get status(): string {
    return this.#status
  }
  get isClusterReachable(): boolean {
    return this.#cluster === null
  }
  get isBrokerReachable(): boolean {
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

  /** Null: ready. An unreachable broker does not affect readiness. */
  get notReadyReason(): string | null {
    if (this.#start !== null) return this.#start
    if (this.#cluster !== null) return this.#cluster
    if (!this.#writeState.isHolder()) return 'standby: another process holds the Lease'
    return this.#writeState.isFrozen() ? 'frozen: the broker rejects the PAK' : null
  }
}
