// What PostgreSQL answers, cut into messages before the driver sees it: rows go straight to the statement they are for, as bytes, and
// everything else goes to the driver. The driver makes text of every value, so that bytea would travel as hex and be read twice.
import type { Duplex } from 'node:stream'

/** A statement that was sent and waits for its answer. */
export interface Answered {
  /** A row: `bytes` from `at` on, its number of values first. They are gone when this returns. */
  takeRow(bytes: Buffer, at: number): void
}

const [dataRow, bindComplete, readyForQuery] = [0x44, 0x32, 0x5a]
const headBytes = 5

/** One per connection, from its first statement on, when PostgreSQL has nothing to say: from there on it knows where messages begin. */
export class AnswerTap {
  readonly #driver: readonly ((chunk: Buffer) => void)[]
  readonly #stream: Duplex
  /** Of one message that has not come whole. */
  #pieces: Buffer[] = []
  #pieceBytes = 0
  #wantedBytes = headBytes
  #waiting: readonly Answered[] = []
  #at = 0

  constructor(stream: Duplex) {
    this.#stream = stream
    this.#driver = stream.listeners('data') as ((chunk: Buffer) => void)[]
    stream.removeAllListeners('data').on('data', (chunk: Buffer) => this.#take(chunk))
  }

  /** The next answers are theirs, in this order; each ends when PostgreSQL is ready for the next. */
  expect(statements: readonly Answered[]): void {
    this.#waiting = statements
    this.#at = 0
  }

  #take(chunk: Buffer): void {
    this.#pieces.push(chunk)
    this.#pieceBytes += chunk.length
    if (this.#pieceBytes < this.#wantedBytes) return
    const bytes = this.#pieces.length === 1 ? chunk : Buffer.concat(this.#pieces, this.#pieceBytes)
    const end = this.#cut(bytes)
    this.#pieces = end === bytes.length ? [] : [bytes.subarray(end)]
    this.#pieceBytes = bytes.length - end
    this.#wantedBytes = this.#pieceBytes < headBytes ? headBytes : lengthAt(bytes, end)
  }

  /** Where the first message begins that is not whole. */
  #cut(bytes: Buffer): number {
    let [at, passed] = [0, 0]
    for (; at + headBytes <= bytes.length; ) {
      const next = at + lengthAt(bytes, at)
      if (next > bytes.length) break
      const statement = this.#waiting[this.#at]
      if (statement !== undefined && (bytes[at] === dataRow || bytes[at] === bindComplete)) {
        this.#pass(bytes, passed, at)
        if (bytes[at] === dataRow) statement.takeRow(bytes, at + headBytes)
        passed = next
      } else if (bytes[at] === readyForQuery) {
        // Told before the driver is: it sends the next statement at once.
        this.#at += 1
        this.#pass(bytes, passed, next)
        passed = next
      }
      at = next
    }
    this.#pass(bytes, passed, at)
    return at
  }

  #pass(bytes: Buffer, start: number, end: number): void {
    if (start === end) return
    const messages = start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)
    for (const listener of this.#driver) listener.call(this.#stream, messages)
  }
}

/** The letter is not counted in the length that a message tells. */
const lengthAt = (bytes: Buffer, at: number): number => 1 + bytes.readUInt32BE(at + 1)
