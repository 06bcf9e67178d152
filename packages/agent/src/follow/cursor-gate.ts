// Holds a cursor back until everything before it is recorded. Content that travels by address arrives later than the frames
// around it; a cursor kept too early would skip it for ever, one kept too late only repeats.

export class CursorGate {
  readonly #open = new Set<string>()
  #first: { cursor: string; before: Set<string> } | null = null
  #last: string | null = null
  readonly #keep: (cursor: string) => void

  constructor(keep: (cursor: string) => void) {
    this.#keep = keep
  }

  /** Something before the next cursor is still under way. */
  begin(what: string): void {
    this.#open.add(what)
  }

  done(what: string): void {
    this.#open.delete(what)
    this.#first?.before.delete(what)
    while (this.#first?.before.size === 0) {
      this.#keep(this.#first.cursor)
      // The later cursor waits for all that is open now, which is more than it needs and never less.
      this.#first = this.#last === null ? null : { cursor: this.#last, before: new Set(this.#open) }
      this.#last = null
    }
  }

  offer(cursor: string): void {
    if (this.#first) this.#last = cursor
    else if (this.#open.size === 0) this.#keep(cursor)
    else this.#first = { cursor, before: new Set(this.#open) }
  }
}
