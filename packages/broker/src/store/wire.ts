// Messages to PostgreSQL as bytes: one statement is one run of bytes, written at once. The driver writes each message for itself.
import pg from 'pg'

/** A parameter as it goes over the wire: text, or bytes for bytea; null is null. */
export type WireValue = string | Buffer | null

/** The driver's own rule, so that arrays, numbers and objects mean what they always meant. Throws for what has no text. */
export const wireValuesOf = (values: readonly unknown[]): WireValue[] => values.map((value) => prepareValue(value))

const { prepareValue } = (pg as unknown as { utils: { prepareValue: (value: unknown) => WireValue } }).utils

export interface WireStatement {
  readonly name: string
  readonly text: string
  readonly values: readonly WireValue[]
  /** PostgreSQL does not know it on this connection yet. */
  readonly isNew: boolean
  /** Nobody knows its columns yet. */
  readonly asksColumns: boolean
  /** Which columns come as bytes; the others, and all of an empty list, as text. */
  readonly bytesOf: readonly boolean[]
}

const describePortal = Buffer.from([0x44, 0, 0, 0, 6, 0x50, 0])
const execute = [0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0]
const executeAndSync = Buffer.from([...execute, 0x53, 0, 0, 0, 4])

/** Bind and Execute of the statement `begin`, which stands prepared under its own name; the next Sync ends both it and what follows. */
export const beginBytes = Buffer.concat([
  Buffer.from([0x42, 0, 0, 0, 4 + 1 + 6 + 6, 0]),
  Buffer.from('begin\0'),
  Buffer.from([0, 0, 0, 0, 0, 0]),
  Buffer.from(execute),
])

/** Parse and Describe only where they are needed, then Bind, Execute and Sync. */
export function statementBytes({ name, text, values, isNew, asksColumns, bytesOf }: WireStatement): Buffer {
  const nameBytes = Buffer.byteLength(name)
  const parseBytes = isNew ? 1 + 4 + nameBytes + 1 + Buffer.byteLength(text) + 1 + 2 : 0
  const lengths = values.map((value) => (value === null ? 0 : typeof value === 'string' ? Buffer.byteLength(value) : value.length))
  const asked = bytesOf.includes(true) ? bytesOf : []
  const bindBytes = bindLength(nameBytes, values, lengths) + 2 * asked.length
  const bytes = Buffer.allocUnsafe(parseBytes + 1 + bindBytes + (asksColumns ? describePortal.length : 0) + executeAndSync.length)
  let at = isNew ? writeParse(bytes, name, text) : 0
  at = writeBind(bytes, at, { name, values, lengths, bindBytes, asked })
  if (asksColumns) at += describePortal.copy(bytes, at)
  executeAndSync.copy(bytes, at)
  return bytes
}

const isBinary = (value: WireValue): boolean => value !== null && typeof value !== 'string'

/** Without the letter that tells the message: no portal name, the statement's, formats, values, how many results are not all text. */
function bindLength(nameBytes: number, values: readonly WireValue[], lengths: readonly number[]): number {
  const formats = values.some(isBinary) ? 2 * values.length : 0
  return 4 + 1 + nameBytes + 1 + 2 + formats + 2 + lengths.reduce((all, each) => all + 4 + each, 0) + 2
}

function writeParse(bytes: Buffer, name: string, text: string): number {
  bytes[0] = 0x50
  let at = 5 + bytes.write(name, 5)
  bytes[at++] = 0
  at += bytes.write(text, at)
  bytes[at++] = 0
  at = bytes.writeInt16BE(0, at)
  bytes.writeInt32BE(at - 1, 1)
  return at
}

function writeBind(
  bytes: Buffer,
  start: number,
  {
    name,
    values,
    lengths,
    bindBytes,
    asked,
  }: Pick<WireStatement, 'name' | 'values'> & {
    readonly lengths: readonly number[]
    readonly bindBytes: number
    readonly asked: readonly boolean[]
  },
): number {
  bytes[start] = 0x42
  let at = bytes.writeInt32BE(bindBytes, start + 1)
  bytes[at++] = 0
  at += bytes.write(name, at)
  bytes[at++] = 0
  at = writeFormats(bytes, at, values.some(isBinary) ? values.map(isBinary) : [])
  at = bytes.writeInt16BE(values.length, at)
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index]!
    at = bytes.writeInt32BE(value === null ? -1 : lengths[index]!, at)
    if (typeof value === 'string') at += bytes.write(value, at)
    else if (value !== null) at += value.copy(bytes, at)
  }
  return writeFormats(bytes, at, asked)
}

/** No codes at all say that everything is text. */
function writeFormats(bytes: Buffer, start: number, areBytes: readonly boolean[]): number {
  let at = bytes.writeInt16BE(areBytes.length, start)
  for (const isBytes of areBytes) at = bytes.writeInt16BE(isBytes ? 1 : 0, at)
  return at
}
