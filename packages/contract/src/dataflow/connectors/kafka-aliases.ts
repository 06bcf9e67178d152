// Fields of a kafka sink under the names of an older client.
import { child, isMap, optional, type Place, warn } from '../field.ts'
import { flag } from '../kinds.ts'
import { duration, size, whole } from '../kinds-number.ts'
import { readFields } from '../read-fields.ts'

const aliases = {
  flushMessages: optional(whole({ min: 0 })),
  flushBytes: optional(size({ min: 0 })),
  flushFrequency: optional(duration()),
  async: optional(flag),
}

/** The block with those names replaced; a name of ours wins. */
export function readKafkaAliases(block: unknown, place: Place): unknown {
  if (!isMap(block)) return block
  const read = readFields(aliases, block, place, Object.keys(block))
  const { flushMessages: _m, flushBytes: _b, flushFrequency: _f, async: _a, ...others } = block
  if (read?.async !== undefined) warn(child(place, 'async'), 'is ignored: every write is confirmed')
  return {
    ...renamed('batchSize', read?.flushMessages),
    ...renamed('batchBytes', read?.flushBytes || undefined),
    ...interval(read?.flushFrequency),
    ...others,
  }
}

const renamed = (name: string, value: number | undefined): object => (value === undefined ? {} : { [name]: value })
const interval = (ms: number | undefined): object => renamed('batchFlushIntervalSeconds', ms === undefined ? undefined : ms / 1000)
