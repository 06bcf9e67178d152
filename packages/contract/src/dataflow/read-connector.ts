// Sources and sinks from the spec to their normal form, and back.
import { z } from 'zod'
import { type Sink, type SinkType, type Source, type SourceType, sinks, sources } from './connectors/index.ts'
import { readKafkaAliases } from './connectors/kafka-aliases.ts'
import type { Side } from './connectors/shared.ts'
import type { Fields, Place } from './field.ts'
import { printFields, readFields } from './read-fields.ts'
import { readTyped, type TypedShape } from './read-typed.ts'

type AnySide = Side<Fields, object>

/** A block may also be written under a name that is a plain key. */
const blockKeysOf = (type: string): readonly string[] => (type === 'postgresql-cdc' ? [type, 'postgresqlCdc'] : [type])
const blockKeys = [...new Set([...Object.keys(sources), ...Object.keys(sinks)])].flatMap(blockKeysOf)

function shapeOf<T extends string>(types: readonly T[], alsoKnown: readonly string[] = []): TypedShape<T> {
  return { types, blockKeys, blockKeysOf, needsBlock: () => true, alsoKnown }
}
const sourceShape = shapeOf(Object.keys(sources) as SourceType[])

export function readSource(value: unknown, at: Place): Source | undefined {
  const typed = readTyped(value, at, sourceShape)
  const config = typed && readSide(sources[typed.type], typed.block, typed.at)
  return config && ({ type: typed.type, config } as Source)
}

/** `alsoKnown`: what stands beside type and block (the errors sink has fields of its own). */
export function readSink(value: unknown, at: Place, alsoKnown: readonly string[] = []): Sink | undefined {
  const typed = readTyped(value, at, shapeOf(Object.keys(sinks) as SinkType[], alsoKnown))
  if (typed === undefined) return undefined
  const block = typed.type === 'kafka' ? readKafkaAliases(typed.block, typed.at) : typed.block
  const config = readSide(sinks[typed.type], block, typed.at)
  return config && ({ type: typed.type, config } as Sink)
}

/** Fields first; what must hold between them is only asked of a block that could be read. */
function readSide(side: AnySide, block: unknown, at: Place): object | undefined {
  const values = readFields(side.fields, block, at)
  if (values === undefined) return undefined
  const problems = side.check(values, at.path)
  at.report.problems.push(...problems)
  at.report.warnings.push(...side.warn(values, at.path))
  if (problems.length > 0) return undefined
  const config = side.complete(values, at.report.identity)
  at.report.places.set(config, at.path)
  return config
}

export const printSource = ({ type, config }: Source): Record<string, unknown> => ({
  type,
  config: printFields(sources[type].fields, config),
})

export const printSink = ({ type, config }: Sink): Record<string, unknown> => ({
  type,
  config: printFields(sinks[type].fields, config),
})

/** Blocks keep what we do not know: another version may. */
export const connectorSchema = z.looseObject({ type: z.string().optional(), config: z.looseObject({}).optional() })
