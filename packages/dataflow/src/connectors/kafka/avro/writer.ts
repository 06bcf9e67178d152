// Encodes Avro values of a sink: with the configured schema, registered if there is a registry, else with the latest of the subject.
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import { type ConnectorContext, ConnectorError } from '../../connector.ts'
import { type AvroCodec, AvroMismatch, compileAvro } from './codec.ts'
import { type AvroSettings, compileConfigured, readConfiguredSchema } from './readers.ts'
import { openRegistry } from './registry.ts'

/** Class record for a value that does not fit the schema. */
export type EncodeAvro = (json: Json | undefined) => Buffer

export async function createAvroWriter(
  settings: AvroSettings & { readonly subject?: string | undefined },
  context: ConnectorContext,
): Promise<EncodeAvro> {
  const configuredSchema = await readConfiguredSchema(settings)
  if (settings.schemaRegistry === undefined) return encoder(compileConfigured(configuredSchema!), Buffer.alloc(0))
  const registry = await openRegistry(settings.schemaRegistry, context)
  try {
    const subject = settings.subject ?? ''
    const registered =
      configuredSchema === undefined
        ? await registry.latest(subject)
        : { id: await registry.register(subject, configuredSchema), texts: [configuredSchema] }
    if (registered === undefined)
      throw new ConnectorError(
        { class: 'config', type: 'unknown' },
        `subject ${subject} has no schema in the registry, and avroSchema is not set`,
      )
    return encoder(
      configuredSchema === undefined ? compileKnown(registered.texts) : compileConfigured(configuredSchema),
      buildFrame(registered.id),
    )
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

function buildFrame(id: number): Buffer {
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
      throw misfit(thrown instanceof AvroMismatch ? thrown.message : 'the payload does not fit the Avro schema')
    }
  }
}

const misfit = (message: string) => new ConnectorError({ class: 'record', type: 'invalid_data' }, message)
