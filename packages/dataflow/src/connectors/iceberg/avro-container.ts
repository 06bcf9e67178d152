// Avro container files as Iceberg uses them: the schema carries the ids of fields, and integers of 64 bits keep their digits. The
// library's own streams drop the ids and round the integers.
import { randomBytes } from 'node:crypto'
import { deflateRawSync, inflateRawSync, zstdDecompressSync } from 'node:zlib'
import avsc from 'avsc'
import { ConnectorError } from '../connector.ts'

/** As in the file: fields of records have a `field-id`. */
export type AvroSchema = string | AvroSchema[] | { readonly type: unknown; readonly [key: string]: unknown }
export type AvroRecord = { [field: string]: unknown }

const magic = Buffer.from('Obj\x01')
const syncBytes = 16
/** A block that unpacks to more is refused. */
const blockBytesMax = 512 << 20

const longType = avsc.types.LongType.__with({
  fromBuffer: (buffer: Buffer) => buffer.readBigInt64LE(),
  toBuffer: (value: bigint) => {
    const buffer = Buffer.alloc(8)
    buffer.writeBigInt64LE(value)
    return buffer
  },
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === 'bigint',
  compare: (a: bigint, b: bigint) => (a === b ? 0 : a < b ? -1 : 1),
})
const headerType = avsc.Type.forSchema({ type: 'map', values: 'bytes' })
const countType = avsc.Type.forSchema('long')
const bytesType = avsc.Type.forSchema('bytes')

/** Unions are plain values: Iceberg's have null and one other branch. */
function toType(schema: AvroSchema): avsc.Type {
  const typeHook = (part: unknown) => ((part as { type?: unknown }).type === 'long' ? longType : undefined)
  return avsc.Type.forSchema(schema as avsc.Schema, { registry: { long: longType }, typeHook, wrapUnions: 'never' })
}

export function writeContainer(schema: AvroSchema, meta: Readonly<Record<string, string>>, records: readonly AvroRecord[]): Buffer {
  const type = toType(schema)
  const sync = randomBytes(syncBytes)
  const texts = { ...meta, 'avro.schema': JSON.stringify(schema), 'avro.codec': 'deflate' }
  const header = headerType.toBuffer(Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)])))
  const parts = [magic, header, sync]
  if (records.length > 0) {
    const body = deflateRawSync(Buffer.concat(records.map((record) => type.toBuffer(record))))
    parts.push(countType.toBuffer(records.length), bytesType.toBuffer(body), sync)
  }
  return Buffer.concat(parts)
}

export interface ReadContainer {
  readonly schema: AvroSchema
  readonly meta: Readonly<Record<string, string>>
  readonly records: AvroRecord[]
}

export function readContainer(file: Buffer, name: string): ReadContainer {
  try {
    return decode(file)
  } catch (thrown) {
    if (thrown instanceof ConnectorError) throw thrown
    const reason = thrown instanceof Error ? thrown.message : 'unknown error'
    throw new ConnectorError({ class: 'config', type: 'invalid_data' }, `${name} is not a readable Avro file: ${reason}`, { cause: thrown })
  }
}

function decode(file: Buffer): ReadContainer {
  if (!file.subarray(0, magic.length).equals(magic)) throw new Error('it does not begin with the mark of a container')
  const header = at(headerType, file, magic.length)
  const meta = Object.fromEntries(Object.entries(header.value as Record<string, Buffer>).map(([name, bytes]) => [name, bytes.toString()]))
  const schema = JSON.parse(meta['avro.schema'] ?? 'null') as AvroSchema
  const type = toType(schema)
  const records: AvroRecord[] = []
  for (let offset = header.offset + syncBytes; offset < file.length; ) {
    const count = at(countType, file, offset)
    const body = at(bytesType, file, count.offset)
    const block = unpack(meta['avro.codec'] ?? 'null', body.value as Buffer)
    for (let index = 0, from = 0; index < (count.value as number); index += 1) {
      const record = at(type, block, from)
      records.push(record.value as AvroRecord)
      from = record.offset
    }
    offset = body.offset + syncBytes
  }
  return { schema, meta, records }
}

function at(type: avsc.Type, buffer: Buffer, from: number): { value: unknown; offset: number } {
  const { value, offset }: { value: unknown; offset: number } = type.decode(buffer, from)
  if (offset < 0) throw new Error('it is cut off')
  return { value, offset }
}

function unpack(codec: string, body: Buffer): Buffer {
  if (codec === 'null') return body
  if (codec === 'deflate') return inflateRawSync(body, { maxOutputLength: blockBytesMax })
  if (codec === 'zstandard') return zstdDecompressSync(body, { maxOutputLength: blockBytesMax })
  throw new ConnectorError({ class: 'config', type: 'invalid_data' }, `Avro files with the codec ${codec} cannot be read`)
}

/** Fields of a record under our own names, found by their ids: writers spell some names differently. */
export function renameById(schema: AvroSchema, names: ReadonlyMap<number, string>): (record: AvroRecord) => AvroRecord {
  const { fields = [] } = schema as unknown as { fields?: { name: string; 'field-id'?: number }[] }
  const pairs = fields.map(({ name, 'field-id': id }) => [name, id === undefined ? name : (names.get(id) ?? name)] as const)
  return (record) => Object.fromEntries(pairs.map(([from, to]) => [to, record[from]]))
}
