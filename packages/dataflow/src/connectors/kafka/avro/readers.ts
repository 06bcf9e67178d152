// Decodes Avro values of a source: with a registry in Confluent's framing (byte 0, schema id, body), else with the configured schema. A
// configured schema is the reader schema; the registry's is the writer schema.
import { readFile } from 'node:fs/promises'
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import type avsc from 'avsc'
import { type ConnectorContext, ConnectorError } from '../../connector.ts'
import { type AvroCodec, compileAvro, type Unions } from './codec.ts'
import { openRegistry, type Registry, type RegistrySettings } from './registry.ts'

export interface AvroSettings {
  readonly avroSchema?: string | undefined
  readonly avroSchemaFile?: string | undefined
  readonly schemaRegistry?: RegistrySettings | undefined
  readonly avroUnions?: Unions
}

export interface AvroReaders {
  /** Class record if a value cannot be decoded: the message is at fault. */
  decode(raw: Uint8Array): Promise<Json>
  close(): Promise<void>
}

const frameBytes = 5
const readersMax = 1_000

export async function createAvroReaders(settings: AvroSettings, context: ConnectorContext): Promise<AvroReaders> {
  const configuredSchema = await readConfiguredSchema(settings)
  const unions = settings.avroUnions ?? 'unwrap'
  const reader = configuredSchema === undefined ? undefined : compileConfigured(configuredSchema, unions)
  if (settings.schemaRegistry === undefined)
    return { decode: async (raw) => decodeBody(plain(reader!), asBuffer(raw)), close: async () => undefined }
  const registry = await openRegistry(settings.schemaRegistry, context)
  const decoders = new Map<number, Decoder>()
  return {
    async decode(raw) {
      const framed = asBuffer(raw)
      if (framed.length < frameBytes || framed[0] !== 0) throw fault('the value is not framed with a schema id')
      const id = framed.readInt32BE(1)
      if (decoders.size >= readersMax) decoders.clear()
      const decoder = decoders.get(id) ?? (await makeDecoder(registry, id, reader, unions))
      decoders.set(id, decoder)
      return decodeBody(decoder, framed.subarray(frameBytes))
    },
    close: () => registry.close(),
  }
}

/** Text of avroSchema or of the file; undefined if neither is configured. */
export async function readConfiguredSchema({ avroSchema, avroSchemaFile }: AvroSettings): Promise<string | undefined> {
  if (avroSchema !== undefined || avroSchemaFile === undefined) return avroSchema
  try {
    return await readFile(avroSchemaFile, 'utf8')
  } catch {
    throw new ConnectorError({ class: 'config', type: 'invalid_data' }, `avroSchemaFile ${avroSchemaFile} cannot be read`)
  }
}

export function compileConfigured(text: string, unions: Unions = 'unwrap'): AvroCodec {
  try {
    return compileAvro([text], unions)
  } catch (cause) {
    throw new ConnectorError({ class: 'config', type: 'invalid_data' }, 'avroSchema is not a valid Avro schema', { cause })
  }
}

interface Decoder {
  readonly codec: AvroCodec
  readonly resolver: Resolver | undefined
}
type Resolver = ReturnType<avsc.Type['createResolver']>

const plain = (codec: AvroCodec): Decoder => ({ codec, resolver: undefined })

async function makeDecoder(registry: Registry, id: number, reader: AvroCodec | undefined, unions: Unions): Promise<Decoder> {
  const texts = await registry.byId(id)
  try {
    const writer = compileAvro(texts, unions)
    return reader === undefined ? plain(writer) : { codec: reader, resolver: reader.type.createResolver(writer.type) }
  } catch (cause) {
    throw fault(`schema ${id} cannot be read${reader === undefined ? '' : ' as avroSchema'}`, cause)
  }
}

function decodeBody({ codec, resolver }: Decoder, body: Buffer): Json {
  try {
    return codec.toJson(codec.type.fromBuffer(body, resolver))
  } catch (cause) {
    throw fault('the value does not fit its Avro schema', cause)
  }
}

const fault = (message: string, cause?: unknown) => new ConnectorError({ class: 'record', type: 'invalid_data' }, message, { cause })

const asBuffer = (raw: Uint8Array): Buffer => (Buffer.isBuffer(raw) ? raw : Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength))
