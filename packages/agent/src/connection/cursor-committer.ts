// Delays a cursor until all changes before it are recorded. Content that is fetched by URL arrives later than the frames around it: a
// cursor stored too early would skip it, one stored too late only repeats changes.

export class CursorCommitter {
  readonly #inFlight = new Set<string>()
  #first: { cursor: string; before: Set<string> } | null = null
  #last: string | null = null
  readonly #commit: (cursor: string) => void

  constructor(commit: (cursor: string) => void) {
    this.#commit = commit
  }

  /** A change before the next cursor is still in flight. */
  begin(what: string): void {
    this.#inFlight.add(what)
  }

  done(what: string): void {
    this.#inFlight.delete(what)
    this.#first?.before.delete(what)
    while (this.#first?.before.size === 0) {
      this.#commit(this.#first.cursor)
      // The later cursor waits for everything in flight now, which is at least what it needs.
      this.#first = this.#last === null ? null : { cursor: this.#last, before: new Set(this.#inFlight) }
      this.#last = null
    }
  }

  offer(cursor: string): void {
    if (this.#first) this.#last = cursor
    else if (this.#inFlight.size === 0) this.#commit(cursor)
    else this.#first = { cursor, before: new Set(this.#inFlight) }
  }
}
