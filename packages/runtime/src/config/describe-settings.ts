// Describes the settings of a table for the reference documentation: names, default, unit and range, derived from the schema.
import { z } from 'zod'
import type { EnvironmentTable } from './environment-settings.ts'
import { environmentName, listSettings, type Section, type Setting } from './settings.ts'

export interface SettingDescription {
  /** Path in a file, such as `server.port`; null for a setting that only the environment gives. */
  readonly path: string | null
  readonly env: readonly string[]
  readonly description: string
  /** `required`, or the default as written in a file. */
  readonly default: string
  readonly unit: string
  readonly range: string
  readonly isHot: boolean
  /** Numbers without a unit, and settings without a description. */
  readonly missing: readonly ('description' | 'unit')[]
}

export function describeSettings(table: Section): SettingDescription[] {
  return listSettings(table).map((entry) => {
    const name = environmentName(entry)
    const { secret, env } = entry.setting
    return describeSetting(entry.setting, { path: entry.path, env: [name, ...(secret === 'no' ? [] : [`${name}_FILE`]), ...env] })
  })
}

export function describeEnvironment(table: EnvironmentTable): SettingDescription[] {
  return Object.entries(table).map(([name, setting]) => describeSetting(setting, { path: null, env: [name] }))
}

function describeSetting(setting: Setting<unknown>, names: Pick<SettingDescription, 'path' | 'env'>): SettingDescription {
  const schema = toJsonSchema(setting.schema)
  const unit = setting.unit ?? schema.unit ?? unitOfKey(names.path ?? names.env[0] ?? '') ?? ''
  return {
    ...names,
    description: setting.description,
    default: describeDefault(setting),
    unit,
    range: describeRange(schema),
    isHot: setting.hot,
    missing: [
      ...(setting.description === '' ? (['description'] as const) : []),
      ...(unit === '' && schema.isNumber ? (['unit'] as const) : []),
    ],
  }
}

interface JsonSchema {
  readonly type?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly pattern?: string
  readonly format?: string
  readonly enum?: readonly unknown[]
  readonly items?: JsonSchema
  readonly prefixItems?: readonly JsonSchema[]
  readonly additionalProperties?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly unit?: string
}
type Described = JsonSchema & { readonly isNumber: boolean }

/** Without the `null` of an optional setting. */
function toJsonSchema(schema: z.ZodType): Described {
  const whole = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  const variants = (whole.anyOf ?? []).filter((variant) => variant.type !== 'null')
  const one = variants.length === 1 ? variants[0]! : whole
  const first = one.prefixItems?.[0] ?? one
  return { ...one, ...(first.unit === undefined ? {} : { unit: first.unit }), isNumber: isNumeric(first) }
}

const isNumeric = ({ type }: JsonSchema): boolean => type === 'number' || type === 'integer'

const unitsOfKeys: Readonly<Record<string, string>> = {
  ms: 'milliseconds',
  seconds: 'seconds',
  hours: 'hours',
  days: 'days',
  bytes: 'bytes',
  percent: 'percent',
  rows: 'rows',
}
const unitOfKey = (path: string): string | undefined => unitsOfKeys[path.slice(path.lastIndexOf('_') + 1).toLowerCase()]

function describeDefault({ fallback }: Setting<unknown>): string {
  if (fallback === null) return 'required'
  const { value } = fallback
  if (value === null) return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function describeRange(schema: JsonSchema): string {
  if (schema.enum !== undefined) return schema.enum.join(', ')
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(describeRange))].join(' or ')
  if (isNumeric(schema)) return describeNumbers(schema)
  if (schema.prefixItems !== undefined) return schema.prefixItems.map(describeRange).join('; ')
  if (schema.type === 'array') return `list of ${describeRange(schema.items ?? {})}${atMost(schema.maxItems, 'entries')}`
  if (schema.type === 'object') return `table of ${describeRange(schema.additionalProperties ?? {})}`
  if (schema.type === 'boolean') return 'true, false'
  return `${schema.format === 'uri' ? 'URL' : schema.format === 'uuid' ? 'UUID' : 'text'}${atMost(schema.maxLength, 'characters')}`
}

const atMost = (max: number | undefined, what: string): string => (max === undefined ? '' : `, at most ${max} ${what}`)

function describeNumbers({ type, minimum, maximum, exclusiveMinimum }: JsonSchema): string {
  const kind = type === 'integer' ? 'integer' : 'number'
  const low = exclusiveMinimum === undefined ? minimum : exclusiveMinimum
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER
  if (low === undefined || low <= -Number.MAX_SAFE_INTEGER) return isBounded ? `${kind} up to ${maximum}` : kind
  if (exclusiveMinimum !== undefined) return `${kind} above ${low}${isBounded ? `, up to ${maximum}` : ''}`
  return isBounded ? `${kind}, ${low} to ${maximum}` : `${kind}, ${low} or more`
}
