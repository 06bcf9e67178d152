// Reads and prints sources and sinks.
import { z } from 'zod'
import { type Sink, type SinkType, type Source, type SourceType, sinks, sources } from '../connectors/index.ts'
import { renameKafkaAliases } from '../connectors/kafka-aliases.ts'
import type { Side } from '../connectors/shared.ts'
import type { Fields, SpecLocation } from '../fields/field.ts'
import { printFields, readFields } from '../fields/read-fields.ts'
import { readTyped, type TypedShape } from './read-typed.ts'

type AnySide = Side<Fields, object>

/** Alternative key of a block, a plain identifier. */
const listBlockKeys = (type: string): readonly string[] => (type === 'postgresql-cdc' ? [type, 'postgresqlCdc'] : [type])
const blockKeys = [...new Set([...Object.keys(sources), ...Object.keys(sinks)])].flatMap(listBlockKeys)

function buildShape<T extends string>(types: readonly T[], alsoKnown: readonly string[] = []): TypedShape<T> {
  return { types, blockKeys, blockKeysOf: listBlockKeys, needsBlock: () => true, alsoKnown }
}
const sourceShape = buildShape(Object.keys(sources) as SourceType[])

export function readSource(value: unknown, at: SpecLocation): Source | undefined {
  const typed = readTyped(value, at, sourceShape)
  const config = typed && readSide(sources[typed.type], typed.block, typed.at)
  return config && ({ type: typed.type, config } as Source)
}

/** `alsoKnown`: keys beside type and block (the errors sink has more fields). */
export function readSink(value: unknown, at: SpecLocation, alsoKnown: readonly string[] = []): Sink | undefined {
  const typed = readTyped(value, at, buildShape(Object.keys(sinks) as SinkType[], alsoKnown))
  if (typed === undefined) return undefined
  const block = typed.type === 'kafka' ? renameKafkaAliases(typed.block, typed.at) : typed.block
  const config = readSide(sinks[typed.type], block, typed.at)
  return config && ({ type: typed.type, config } as Sink)
}

/** Fields first; rules between them run only for a block that could be read. */
function readSide(side: AnySide, block: unknown, at: SpecLocation): object | undefined {
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

/** Blocks keep unknown fields: another version may know them. */
export const connectorSchema = z.looseObject({ type: z.string().optional(), config: z.looseObject({}).optional() })
