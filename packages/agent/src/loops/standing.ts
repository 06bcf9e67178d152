// How the agent stands to its two neighbours, for readiness and for logs that speak only when something changes.

export class Standing {
  #start: string | null = 'starting'
  #cluster: string | null = null
  #broker: string | null = null

  /** Null: the start is over. */
  starting(why: string | null): void {
    this.#start = why
  }

  /** Null: it answers. */
  cluster(why: string | null): void {
    this.#cluster = why
  }

  /** True: from well to not well or back. */
  broker(why: string | null): boolean {
    const isChanged = (why === null) !== (this.#broker === null)
    this.#broker = why
    return isChanged
  }

  get isClusterWell(): boolean {
    return this.#cluster === null
  }

  get isBrokerWell(): boolean {
    return this.#broker === null
  }

  /** Null: ready. A broker that is away is no reason: what runs goes on without it. */
  get notReady(): string | null {
    return this.#start ?? this.#cluster
  }
}
