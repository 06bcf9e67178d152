// select: a new flat object of the values that paths name, each under the last key of its path.
import { compileGlob } from '@brokkr/contract/dataflow/glob.ts'
import { isComposite, isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/json.ts'
import type { Path, Segment } from '@brokkr/contract/dataflow/path.ts'
import { compileRead } from '@brokkr/contract/dataflow/read-path.ts'
import { payloadOf, withPayload } from '../message.ts'
import type { Transform } from '../transform.ts'

export const select: Transform<'select'> = {
  type: 'select',
  build({ fields }) {
    const pickers = fields.map(compilePick)
    return (message) => {
      const payload = payloadOf(message)!
      const selected: JsonObject = {}
      let composites = 0
      for (const pick of pickers) composites += pick(payload, selected)
      // Two picked objects may lie within each other: then one change would show in two places.
      return [withPayload(message, selected, message.isOwned && composites < 2)]
    }
  },
}

/** Puts the value into the selection; 1 if it is an object or array. */
type Pick = (payload: Json, selected: JsonObject) => number

function compilePick(path: Path): Pick {
  const last = path.segments.findLastIndex(({ kind }) => kind === 'key' || kind === 'wildcard')
  const named = path.segments[last] ?? path.segments.findLast(({ kind }) => kind === 'index')!
  if (named.kind === 'wildcard') return pickWildcard(path.segments, last, named.glob)
  const read = compileRead(path.segments)
  const name = 'key' in named ? named.key : ''
  return (payload, selected) => put(selected, name, read(payload))
}

/** The name is that of the key which matched. */
function pickWildcard(segments: readonly Segment[], at: number, glob: string): Pick {
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
