// Statements that travel together: one write, one answer, one transaction. What stands before one Sync is committed as a whole or not at
// all, so a batch needs neither begin nor commit. Asked for one by one, the server would wait for this process after each of them, every
// time until its event loop comes round.
import type pg from 'pg'

export interface Statement {
  readonly text: string
  /** Texts, or the binary form of their type. */
  readonly values: readonly (string | Buffer)[]
}

/** The driver calls `submit`, and then one method per message of the answer. */
export class Trip implements pg.Submittable {
  /** Rows that each statement has changed; as many as have succeeded, whether or not the whole did. */
  readonly counts: number[] = []
  readonly #statements: readonly Statement[]
  readonly #sent = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<void>()
  /** The driver puts its time limit around it. */
  callback = (error: unknown): void => {
    this.#sent.resolve()
    if (error === null) this.#ended.resolve()
    else this.#ended.reject(error)
  }

  constructor(statements: readonly Statement[]) {
    this.#statements = statements
  }

  /** Resolves when all bytes have left, or will not leave any more. */
  get sent(): Promise<void> {
    return this.#sent.promise
  }

  run(client: pg.Client): Promise<void> {
    client.query(this)
    return this.#ended.promise
  }

  submit({ stream }: pg.Connection): void {
    // A connection that has gone tells everybody who waits on it.
    if (!stream.writable) return
    stream.cork()
    for (const statement of this.#statements) for (const piece of piecesOf(statement)) stream.write(piece)
    stream.write(sync, () => this.#sent.resolve())
    stream.uncork()
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.counts.push(Number(text.slice(text.lastIndexOf(' ') + 1)) || 0)
  }

  handleReadyForQuery(): void {
    this.callback(null)
  }

  handleError(error: unknown): void {
    this.callback(error)
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleCopyData(): void {}
  handleCopyInResponse(): void {}
}

const execute = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0])
const sync = Buffer.from([0x53, 0, 0, 0, 4])

/** Parse, Bind and Execute without names. Values are not copied once more: they may be a megabyte. */
function piecesOf({ text, values }: Statement): Buffer[] {
  const bodies = values.map((value) => (typeof value === 'string' ? Buffer.from(value) : value))
  const bind = [bindHead(values), ...bodies.flatMap((body) => [int32(body.length), body]), textResults]
  const bindBytes = bind.reduce((bytes, piece) => bytes + piece.length, 4)
  return [parseBytes(text), Buffer.from('B'), int32(bindBytes), ...bind, execute]
}

function parseBytes(text: string): Buffer {
  const body = Buffer.from(`\0${text}\0\0\0`)
  return Buffer.concat([Buffer.from('P'), int32(4 + body.length), body])
}

/** No names of portal and statement, the format of each value, how many there are. */
function bindHead(values: readonly (string | Buffer)[]): Buffer {
  const numbers = [values.length, ...values.map((value) => (typeof value === 'string' ? 0 : 1)), values.length]
  const head = Buffer.alloc(2 + 2 * numbers.length)
  for (const [at, number] of numbers.entries()) head.writeInt16BE(number, 2 + 2 * at)
  return head
}
const textResults = Buffer.from([0, 0])

function int32(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeInt32BE(number)
  return bytes
}
