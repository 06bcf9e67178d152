// A JSON Schema as an indented list.
import { plainText } from '../parts/text.tsx'
import type { Schema } from './openapi.ts'

const depthMax = 6

export function SchemaView({ schema, depth = 0 }: { schema: Schema; depth?: number }) {
  const object = objectOf(schema)
  if (object === null || depth > depthMax) return <div className="schema ink-2">{typeName(schema)}</div>
  return (
    <ul className="schema">
      {Object.entries(object.properties ?? {}).map(([name, property]) => {
        const inner = objectOf(property) ?? (property.items === undefined ? null : objectOf(property.items))
        return (
          <li key={name}>
            <b className="b">{name}</b> <span className="ink-3">{typeName(property)}</span>
            {object.required?.includes(name) === true ? <span className="ink-2"> required</span> : null}
            {property.default === undefined ? null : (
              <span className="ink-3"> default {plainText(JSON.stringify(property.default), 60)}</span>
            )}
            {inner === null || depth >= depthMax ? null : <SchemaView schema={inner} depth={depth + 1} />}
          </li>
        )
      })}
    </ul>
  )
}

function objectOf(schema: Schema): Schema | null {
  if (schema.properties !== undefined) return schema
  if (schema.items !== undefined && schema.type === 'array') return objectOf(schema.items)
  return (schema.anyOf ?? schema.oneOf ?? []).map(objectOf).find((found) => found !== null) ?? null
}

export function typeName(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (schema.anyOf !== undefined || schema.oneOf !== undefined)
    return [...new Set((schema.anyOf ?? schema.oneOf)!.map(typeName))].join(' | ')
  if (schema.type === 'array') return `list of ${schema.items === undefined ? 'any' : typeName(schema.items)}`
  const type = Array.isArray(schema.type) ? schema.type.join(' | ') : (schema.type ?? 'any')
  const limit = schema.maxLength === undefined ? '' : `, at most ${schema.maxLength} characters`
  return `${schema.format === undefined ? type : schema.format}${limit}`
}

/** A body to start from: required properties with empty values. Pure. */
export function exampleOf(schema: Schema): unknown {
  if (schema.default !== undefined) return schema.default
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.properties !== undefined)
    return Object.fromEntries(
      Object.entries(schema.properties)
        .filter(([name]) => schema.required?.includes(name) === true)
        .map(([name, property]) => [name, exampleOf(property)]),
    )
  if (schema.anyOf !== undefined) return exampleOf(schema.anyOf[0]!)
  if (schema.type === 'array') return []
  if (schema.type === 'boolean') return false
  if (schema.type === 'integer' || schema.type === 'number') return 0
  return schema.type === 'string' ? '' : null
}
