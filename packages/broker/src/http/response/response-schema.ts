// The schema of the compiled response writer, so that a column outside the contract cannot leave the broker. Draft 7, because the writer
// supports no later one; a nullable value becomes one type with a flag, which is written without trying branches.
import { z } from 'zod'

type Schema = { [key: string]: unknown }

export function responseSchema(type: z.ZodType): Schema {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io: 'output', target: 'draft-7' }) as Schema
  return flattened(schema) as Schema
}

function flattened(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(flattened)
  if (typeof value !== 'object' || value === null) return value
  const schema = value as Schema
  const branches = Array.isArray(schema['anyOf']) ? (schema['anyOf'] as Schema[]) : []
  const [only, ...others] = branches.filter((branch) => branch['type'] !== 'null')
  if (branches.length === 2 && only !== undefined && others.length === 0) return { ...(flattened(only) as Schema), nullable: true }
  return Object.fromEntries(Object.entries(schema).map(([key, entry]) => [key, flattened(entry)]))
}
