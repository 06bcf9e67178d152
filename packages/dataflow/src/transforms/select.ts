// select: builds a flat object of the values that paths match, each under the last key of its path.
import { compileGlob } from '@brokkr/contract/dataflow/language/glob.ts'
import { isComposite, isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import type { Path, Segment } from '@brokkr/contract/dataflow/language/path.ts'
import { compileRead } from '@brokkr/contract/dataflow/language/read-path.ts'
import { getPayload, withPayload } from '../message/message.ts'
import type { Transform } from './transform.ts'

export const select: Transform<'select'> = {
  type: 'select',
  build({ fields }) {
    const pickers = fields.map(compilePicker)
    return (message) => {
      const payload = getPayload(message)!
      const selected: JsonObject = {}
      let composites = 0
      for (const pick of pickers) composites += pick(payload, selected)
      // One selected object may contain another: then a change of one would change the other.
      return [withPayload(message, selected, message.isOwned && composites < 2)]
    }
  },
}

/** Adds the value to the selection; returns 1 if it is an object or array. */
type Picker = (payload: Json, selected: JsonObject) => number

function compilePicker(path: Path): Picker {
  const last = path.segments.findLastIndex(({ kind }) => kind === 'key' || kind === 'wildcard')
  const nameSegment = path.segments[last] ?? path.segments.findLast(({ kind }) => kind === 'index')!
  if (nameSegment.kind === 'wildcard') return pickWildcard(path.segments, last, nameSegment.glob)
  const read = compileRead(path.segments)
  const name = 'key' in nameSegment ? nameSegment.key : ''
  return (payload, selected) => put(selected, name, read(payload))
}

/** The name is the key that matched. */
function pickWildcard(segments: readonly Segment[], at: number, glob: string): Picker {
  const parent = compileRead(segments.slice(0, at))
  const isMatch = compileGlob(glob)
  const rest = compileRead(segments.slice(at + 1))
  return (payload, selected) => {
    const object = parent(payload)
    const key = isRecord(object) ? Object.keys(object).find(isMatch) : undefined
    return key === undefined ? 0 : put(selected, key, rest((object as JsonObject)[key]))
  }
}

function put(selected: JsonObject, name: string, value: Json | undefined): number {
  if (value === undefined) return 0
  setKey(selected, name, value)
  return isComposite(value) ? 1 : 0
}
