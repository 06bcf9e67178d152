// Fields of a kafka sink under the names of an older client.
import { child, isMap, optional, type SpecLocation, warn } from '../fields/field.ts'
import { flag } from '../fields/kinds.ts'
import { duration, size, whole } from '../fields/kinds-number.ts'
import { readFields } from '../fields/read-fields.ts'

const aliases = {
  flushMessages: optional(whole({ min: 0 })),
  flushBytes: optional(size({ min: 0 })),
  flushFrequency: optional(duration()),
  async: optional(flag),
}

/** Replaces old field names by current ones. If both are set, the current one is used. */
export function renameKafkaAliases(block: unknown, place: SpecLocation): unknown {
  if (!isMap(block)) return block
  const values = readFields(aliases, block, place, Object.keys(block))
  const { flushMessages: _m, flushBytes: _b, flushFrequency: _f, async: _a, ...others } = block
  if (values?.async !== undefined) warn(child(place, 'async'), 'is ignored: the sink always waits for acknowledgment')
  return {
    ...toField('batchSize', values?.flushMessages),
    ...toField('batchBytes', values?.flushBytes || undefined),
    ...toFlushInterval(values?.flushFrequency),
    ...others,
  }
}

const toField = (name: string, value: number | undefined): object => (value === undefined ? {} : { [name]: value })
const toFlushInterval = (ms: number | undefined): object => toField('batchFlushIntervalSeconds', ms === undefined ? undefined : ms / 1000)
