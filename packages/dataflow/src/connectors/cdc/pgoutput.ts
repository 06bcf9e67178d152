// Decodes pgoutput, version 1 of the logical replication protocol. Pure. Values stay the server's text, so that digits and microseconds are
// kept; the library's decoder truncates microseconds.

export type Lsn = bigint
/** null: NULL · undefined: an unchanged large value that was not sent. */
export type Value = string | null | undefined
export interface RelationColumn {
  readonly name: string
  readonly type: number
  /** Part of the replica identity. */
  readonly isKey: boolean
}
export interface Relation {
  readonly id: number
  readonly schema: string
  readonly table: string
  /** d default, n nothing, f full, i index. */
  readonly identity: string
  readonly columns: readonly RelationColumn[]
}
/** K: only the columns of the identity, others are NULL · O: the whole old row. */
export interface OldTuple {
  readonly kind: 'K' | 'O'
  readonly values: readonly Value[]
}
export type PgMessage =
  | { readonly kind: 'begin'; readonly commitLsn: Lsn; readonly timeMicros: bigint; readonly xid: number }
  | { readonly kind: 'commit'; readonly commitLsn: Lsn; readonly endLsn: Lsn; readonly timeMicros: bigint }
  | { readonly kind: 'relation'; readonly relation: Relation }
  | { readonly kind: 'insert'; readonly relation: number; readonly after: readonly Value[] }
  | { readonly kind: 'update'; readonly relation: number; readonly before: OldTuple | undefined; readonly after: readonly Value[] }
  | { readonly kind: 'delete'; readonly relation: number; readonly before: OldTuple }
  | { readonly kind: 'truncate'; readonly relations: readonly number[] }
  /** Types, origins and logical messages are ignored. */
  | { readonly kind: 'other'; readonly tag: string }

/** Throws on invalid messages: a stream that is not understood must not be confirmed. */
export function decodePgoutput(bytes: Buffer): PgMessage {
  const reader = new Reader(bytes)
  const message = decode(reader)
  if (message.kind !== 'other' && !reader.isAtEnd())
    throw new Error(`pgoutput: ${reader.left()} bytes too many in a message of kind ${message.kind}`)
  return message
}

function decode(reader: Reader): PgMessage {
  const tag = reader.character()
  switch (tag) {
    case 'B':
      return { kind: 'begin', commitLsn: reader.int64(), timeMicros: reader.int64(), xid: reader.uint32() }
    case 'C': {
      reader.byte()
      return { kind: 'commit', commitLsn: reader.int64(), endLsn: reader.int64(), timeMicros: reader.int64() }
    }
    case 'R':
      return { kind: 'relation', relation: relation(reader) }
    case 'I': {
      const id = reader.uint32()
      expectTag(reader, 'N')
      return { kind: 'insert', relation: id, after: reader.tuple() }
    }
    case 'U':
      return update(reader)
    case 'D': {
      const id = reader.uint32()
      const kind = reader.character()
      if (kind !== 'K' && kind !== 'O') throw new Error(`pgoutput: a delete with the tuple ${kind}`)
      return { kind: 'delete', relation: id, before: { kind, values: reader.tuple() } }
    }
    case 'T': {
      const count = reader.uint32()
      reader.byte()
      return { kind: 'truncate', relations: Array.from({ length: bounded(count, reader) }, () => reader.uint32()) }
    }
    case 'Y':
    case 'O':
    case 'M':
      return { kind: 'other', tag }
    default:
      throw new Error(`pgoutput: unknown message ${JSON.stringify(tag)}`)
  }
}

function update(reader: Reader): PgMessage {
  const id = reader.uint32()
  const first = reader.character()
  if (first === 'N') return { kind: 'update', relation: id, before: undefined, after: reader.tuple() }
  if (first !== 'K' && first !== 'O') throw new Error(`pgoutput: an update with the tuple ${first}`)
  const before: OldTuple = { kind: first, values: reader.tuple() }
  expectTag(reader, 'N')
  return { kind: 'update', relation: id, before, after: reader.tuple() }
}

function relation(reader: Reader): Relation {
  const [id, schema, table, identity] = [reader.uint32(), reader.text(), reader.text(), reader.character()]
  const columns = Array.from({ length: reader.uint16() }, (): RelationColumn => {
    const isKey = (reader.byte() & 1) === 1
    const [name, type] = [reader.text(), reader.uint32()]
    reader.uint32()
    return { name, type, isKey }
  })
  // The schema pg_catalog is sent as empty text.
  return { id, schema: schema === '' ? 'pg_catalog' : schema, table, identity, columns }
}

function expectTag(reader: Reader, expectedCharacter: string): void {
  const character = reader.character()
  if (character !== expectedCharacter) throw new Error(`pgoutput: ${JSON.stringify(character)} where ${expectedCharacter} was expected`)
}

/** The count exceeds the length of the message. */
function bounded(count: number, reader: Reader): number {
  if (count > reader.left()) throw new Error('pgoutput: a message ends too early')
  return count
}

class Reader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  left(): number {
    return this.#bytes.length - this.#at
  }

  byte(): number {
    return this.#bytes.readUInt8(this.#take(1))
  }

  character(): string {
    return String.fromCharCode(this.byte())
  }

  uint16(): number {
    return this.#bytes.readUInt16BE(this.#take(2))
  }

  uint32(): number {
    return this.#bytes.readUInt32BE(this.#take(4))
  }

  int64(): bigint {
    return this.#bytes.readBigInt64BE(this.#take(8))
  }

  text(): string {
    const end = this.#bytes.indexOf(0, this.#at)
    if (end < 0) throw new Error('pgoutput: a text without an end')
    const text = this.#bytes.toString('utf8', this.#at, end)
    this.#at = end + 1
    return text
  }

  tuple(): Value[] {
    const count = bounded(this.uint16(), this)
    const values: Value[] = []
    for (let at = 0; at < count; at += 1) values.push(this.#value())
    return values
  }

  #value(): Value {
    const kind = this.byte()
    if (kind === 0x6e) return null
    if (kind === 0x75) return undefined
    if (kind !== 0x74) throw new Error(`pgoutput: a value of kind ${JSON.stringify(String.fromCharCode(kind))}`)
    const length = this.uint32()
    const start = this.#take(length)
    return this.#bytes.toString('utf8', start, start + length)
  }

  #take(count: number): number {
    const start = this.#at
    if (count > this.left()) throw new Error('pgoutput: a message ends too early')
    this.#at += count
    return start
  }
}

export const lsnText = (lsn: Lsn): string => halvesText(Number(lsn >> 32n), Number(lsn & 0xffff_ffffn))
/** Two 32-bit halves: every row has a position, and reading and printing them is faster than a bigint. */
export const halvesText = (high: number, low: number): string => `${hex(high)}/${hex(low)}`
const hex = (bits: number): string => bits.toString(16).toUpperCase()

export function parseLsn(text: string): Lsn {
  const match = /^([0-9A-Fa-f]{1,8})\/([0-9A-Fa-f]{1,8})$/.exec(text)
  if (match === null) throw new Error(`"${text}" is no LSN`)
  return (BigInt(`0x${match[1]}`) << 32n) | BigInt(`0x${match[2]}`)
}

/** Microseconds since 2000 to RFC3339 in UTC. */
export function commitTime(micros: bigint): string {
  const since1970 = micros + 946_684_800_000_000n
  const text = new Date(Number(since1970 / 1000n)).toISOString()
  const rest = since1970 % 1000n
  return rest === 0n ? text : `${text.slice(0, -1)}${rest.toString().padStart(3, '0')}Z`
}
