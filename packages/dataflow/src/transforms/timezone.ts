// timezone: converts times to another zone, or to a number.
import { numberText } from '@brokkr/contract/dataflow/language/decimal.ts'
import type { Instant } from '@brokkr/contract/dataflow/language/instant.ts'
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { compileLayout } from '@brokkr/contract/dataflow/language/layout.ts'
import { parseZone, type Zone } from '@brokkr/contract/dataflow/language/zone.ts'
import type { TransformConfig } from '@brokkr/contract/dataflow/spec/transforms.ts'
import { getPayload, withPayload } from '../message/message.ts'
import { compileEdit } from './paths/edit.ts'
import { readTime } from './time-value.ts'
import { type Transform, TransformError } from './transform.ts'

export const timezone: Transform<'timezone'> = {
  type: 'timezone',
  build(config) {
    const print = createPrinter(config.format, parseZone(config.timezone)!)
    const source = parseZone(config.sourceTimezone)!
    const editors = config.fields.map(({ segments, text }) => compileEdit(segments, (value) => convert(value, source, print, text)))
    return (message) => {
      const before = getPayload(message)!
      const edit = { isOwned: message.isOwned, hits: 0 }
      const payload = editors.reduce<Json>((root, editor) => editor(root, edit), before)
      return [edit.hits === 0 ? message : withPayload(message, payload, message.isOwned)]
    }
  },
}

type Printer = (instant: Instant) => Json | undefined

function convert(value: Json, source: Zone, print: Printer, path: string): Json {
  if (value === null) return null
  const text = typeof value === 'number' || isRawNumber(value) ? numberText(value) : value
  const instant = typeof text === 'string' ? readTime(text, source) : undefined
  const converted = instant === undefined ? undefined : print(instant)
  if (converted === undefined) throw new TransformError('timezone', path, 'is not a timestamp')
  return converted
}

function createPrinter(format: TransformConfig<'timezone'>['format'], zone: Zone): Printer {
  if (format === 'Unix') return ({ seconds }) => seconds
  if (format === 'UnixMilli') return ({ seconds, fraction }) => seconds * 1000 + Number(fraction.slice(0, 3).padEnd(3, '0'))
  const date = compileLayout('2006-01-02T15:04:05')!
  const offset = compileLayout('Z07:00')!
  return ({ seconds, fraction }) => {
    const year = new Date((seconds + zone.offsetAt(seconds)) * 1000).getUTCFullYear()
    if (!(year >= 0 && year <= 9999)) return undefined
    const digits = format === 'RFC3339' || fraction === '' ? '' : `.${fraction}`
    return date(zone, seconds, 0) + digits + offset(zone, seconds, 0)
  }
}
