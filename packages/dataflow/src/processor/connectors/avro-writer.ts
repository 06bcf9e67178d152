// Avro values of a sink: by the given schema, which is registered when there is a registry, else by the newest of the subject.
import type { Json } from '@brokkr/contract/dataflow/json.ts'
import { type AvroCodec, AvroMisfit, compileAvro } from './avro.ts'
import { type AvroSettings, compileGiven, givenSchema } from './avro-readers.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'
import { openRegistry } from './registry.ts'

/** Class record for a value that does not fit. */
export type EncodeAvro = (json: Json | undefined) => Buffer

export async function avroWriter(
  settings: AvroSettings & { readonly subject?: string | undefined },
  context: ConnectorContext,
): Promise<EncodeAvro> {
  const given = await givenSchema(settings)
  if (settings.schemaRegistry === undefined) return encoder(compileGiven(given!), Buffer.alloc(0))
  const registry = await openRegistry(settings.schemaRegistry, context)
  try {
    const subject = settings.subject ?? ''
    const known = given === undefined ? await registry.latest(subject) : { id: await registry.register(subject, given), texts: [given] }
    if (known === undefined)
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        `subject ${subject} has no schema in the registry, and avroSchema gives none`,
      )
    return encoder(given === undefined ? compileKnown(known.texts) : compileGiven(given), frameOf(known.id))
  } finally {
    await registry.close()
  }
}

function compileKnown(texts: readonly string[]): AvroCodec {
  try {
    return compileAvro(texts)
  } catch (cause) {
    throw new ConnectorError({ class: 'config', type: 'invalid_data' }, 'the schema in the registry cannot be read', { cause })
  }
}

function frameOf(id: number): Buffer {
  const frame = Buffer.alloc(5)
  frame.writeInt32BE(id, 1)
  return frame
}

function encoder(codec: AvroCodec, frame: Buffer): EncodeAvro {
  return (json) => {
    if (json === undefined) throw misfit('the payload is not JSON')
    try {
      return Buffer.concat([frame, codec.type.toBuffer(codec.fromJson(json))])
    } catch (thrown) {
      throw misfit(thrown instanceof AvroMisfit ? thrown.message : 'the payload does not fit the Avro schema')
    }
  }
}

const misfit = (message: string) => new ConnectorError({ class: 'record', type: 'invalid_data' }, message)
