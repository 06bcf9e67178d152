// flatten: one message per element of an array.
import { isComposite, isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { Path } from '@brokkr/contract/dataflow/language/path.ts'
import { compileRead } from '@brokkr/contract/dataflow/language/read-path.ts'
import { derive, getPayload, type Message } from '../message/message.ts'
import { compileRemove } from './paths/remove.ts'
import { compileSet, type Setter } from './paths/set-value.ts'
import { type Transform, TransformError } from './transform.ts'

export const flatten: Transform<'flatten'> = {
  type: 'flatten',
  build({ field }) {
    const read = compileRead(field.segments)
    const remove = compileRemove(field.segments)
    const put = compileSet('flatten', field)
    return (message) => {
      const payload = getPayload(message)
      if (!isRecord(payload)) return [message]
      const elements = findElements(read(payload))
      if (elements === undefined) return [message]
      const parent = remove(payload, { isOwned: message.isOwned, hits: 0 }) as JsonObject
      return split(message, parent, elements, put, field)
    }
  },
}

/** The array, also inside Avro's wrapper. */
function findElements(value: Json | undefined): Json[] | undefined {
  if (Array.isArray(value)) return value
  if (!isRecord(value) || !Array.isArray(value['array']) || Object.keys(value).length !== 1) return undefined
  return value['array']
}

function split(message: Message, parent: JsonObject, elements: Json[], put: Setter, field: Path): readonly Message[] {
  if (elements.length === 0) return [derive(message, parent, message.isOwned)]
  checkSize(parent, elements.length, field)
  // Objects and arrays of the parent are shared by all outputs.
  const isOwned = message.isOwned && (elements.length === 1 || !Object.values(parent).some(isComposite))
  return elements.map((element) => {
    const json = isRecord(element) ? { ...parent, ...element } : put(parent, element, false)
    return derive(message, json, isOwned)
  })
}

/** Every output contains the parent: a large parent with many elements could exhaust memory. */
const outputSizeMax = 64 << 20
const elementsMax = 100_000

function checkSize(parent: JsonObject, count: number, field: Path): void {
  if (count <= 100) return
  if (count > elementsMax || count * countValues(parent) > outputSizeMax)
    throw new TransformError('flatten', field.text, 'the array has too many elements', 'fan_out')
}

/** Approximate length of the value as text. */
function countValues(value: Json): number {
  if (typeof value === 'string') return value.length + 2
  if (!isComposite(value)) return 5
  let size = 2
  if (Array.isArray(value)) for (const element of value) size += countValues(element) + 1
  else for (const key of Object.keys(value)) size += key.length + 4 + countValues(value[key]!)
  return size
}
