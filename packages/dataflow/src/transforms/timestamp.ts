// timestamp: sets the time of processing.

import { type TimeFormat, type UnixFormat, unixFormats } from '@brokkr/contract/dataflow/fields/kinds-language.ts'
import { isRecord, type Json, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import { compileLayout } from '@brokkr/contract/dataflow/language/layout.ts'
import { parseZone } from '@brokkr/contract/dataflow/language/zone.ts'
import { getPayload, withPayload } from '../message/message.ts'
import { compileSet } from './paths/set-value.ts'
import type { Transform } from './transform.ts'

export const timestamp: Transform<'timestamp'> = {
  type: 'timestamp',
  build(config) {
    const print = createPrinter(config.format, config.timezone)
    const set = compileSet('timestamp', config.fieldName)
    return (message, { nowMs }) => {
      const payload = getPayload(message)
      if (!isRecord(payload)) return [message]
      return [withPayload(message, set(payload, print(nowMs), message.isOwned), message.isOwned)]
    }
  },
}

type Printer = (nowMs: number) => Json

/** Most messages of a second get the same text, so the last one is cached. */
function createPrinter(format: TimeFormat, timezone: string): Printer {
  if ('unix' in format) return (nowMs) => printUnix(format.unix, nowMs)
  const zone = parseZone(timezone)!
  const print = compileLayout(format.layout)!
  const hasFraction = print(zone, 0, 1) !== print(zone, 0, 999_999_999)
  let last = Number.NaN
  let text = ''
  return (nowMs) => {
    const moment = hasFraction ? nowMs : Math.floor(nowMs / 1000)
    if (moment !== last) {
      const seconds = Math.floor(nowMs / 1000)
      text = print(zone, seconds, toNanoseconds(nowMs, seconds))
      last = moment
    }
    return text
  }
}

const toNanoseconds = (nowMs: number, seconds: number): number => Math.floor((nowMs - seconds * 1000) * 1e6)

/** Nanoseconds since 1970 need more digits than a double has. */
function printUnix(format: UnixFormat, nowMs: number): Json {
  if (format !== 'UnixNano') return Math.floor((nowMs / 1000) * unixFormats[format])
  const seconds = Math.floor(nowMs / 1000)
  return rawNumber(`${seconds}${String(toNanoseconds(nowMs, seconds)).padStart(9, '0')}`)
}
