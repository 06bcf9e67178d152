// A form from a JSON Schema: one field per property. What the form cannot show is edited as JSON; the broker checks everything.
import { plainText } from '../parts/text.tsx'

export interface Property {
  readonly type?: string | string[]
  readonly title?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly default?: unknown
}
export interface ParameterSchema {
  readonly properties: Readonly<Record<string, Property>>
  readonly required: readonly string[]
}

/** Pure. Null: the text is not a schema of an object. */
export function parseSchema(text: string): ParameterSchema | null {
  try {
    const schema = JSON.parse(text) as { properties?: Record<string, Property>; required?: string[] }
    if (typeof schema !== 'object' || schema === null) return null
    return { properties: schema.properties ?? {}, required: schema.required ?? [] }
  } catch {
    return null
  }
}

export const defaultsOf = ({ properties }: ParameterSchema): Record<string, unknown> =>
  Object.fromEntries(Object.entries(properties).flatMap(([name, { default: value }]) => (value === undefined ? [] : [[name, value]])))

interface SchemaFormProps {
  readonly schema: ParameterSchema
  readonly value: Readonly<Record<string, unknown>>
  readonly onChange: (next: Record<string, unknown>) => void
}

export function SchemaForm({ schema, value, onChange }: SchemaFormProps) {
  const set = (name: string, next: unknown) => {
    const { [name]: _, ...rest } = value
    onChange(next === undefined ? rest : { ...rest, [name]: next })
  }
  return (
    <div className="pad-form">
      {Object.entries(schema.properties).map(([name, property]) => (
        <label key={name} className="field">
          <span>
            {plainText(property.title ?? name, 100)}
            {schema.required.includes(name) ? ' (required)' : ''}
          </span>
          <PropertyField property={property} value={value[name]} onChange={(next) => set(name, next)} />
          {property.description === undefined ? null : <small>{plainText(property.description, 300)}</small>}
        </label>
      ))}
      {Object.keys(schema.properties).length === 0 ? <p className="ink-3">This template has no parameters.</p> : null}
    </div>
  )
}

function PropertyField({ property, value, onChange }: { property: Property; value: unknown; onChange: (next: unknown) => void }) {
  const type = Array.isArray(property.type) ? property.type[0] : property.type
  if (property.enum !== undefined)
    return (
      <select className="select" value={JSON.stringify(value ?? null)} onChange={(event) => onChange(JSON.parse(event.target.value))}>
        <option value="null">choose</option>
        {property.enum.map((option) => (
          <option key={JSON.stringify(option)} value={JSON.stringify(option)}>
            {plainText(String(option), 100)}
          </option>
        ))}
      </select>
    )
  if (type === 'boolean') return <input type="checkbox" checked={value === true} onChange={(event) => onChange(event.target.checked)} />
  if (type === 'integer' || type === 'number')
    return (
      <input
        className="input"
        type="number"
        step={type === 'integer' ? 1 : 'any'}
        value={typeof value === 'number' ? value : ''}
        onChange={(event) => onChange(event.target.value === '' ? undefined : Number(event.target.value))}
      />
    )
  if (type === 'object' || type === 'array') return <JsonField value={value} onChange={onChange} />
  return (
    <input
      className="input"
      value={typeof value === 'string' ? value : ''}
      onChange={(event) => onChange(event.target.value === '' ? undefined : event.target.value)}
    />
  )
}

function JsonField({ value, onChange }: { value: unknown; onChange: (next: unknown) => void }) {
  return (
    <textarea
      className="area"
      rows={4}
      spellCheck={false}
      defaultValue={value === undefined ? '' : JSON.stringify(value, null, 2)}
      placeholder="JSON"
      onChange={(event) => {
        try {
          onChange(event.target.value === '' ? undefined : JSON.parse(event.target.value))
        } catch {
          // Not complete yet; the last complete value stays.
        }
      }}
    />
  )
}
