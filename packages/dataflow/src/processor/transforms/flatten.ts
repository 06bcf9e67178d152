// flatten: one message per element of an array.
import { isComposite, isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { Path } from '@brokkr/contract/dataflow/path.ts'
import { compileRead } from '@brokkr/contract/dataflow/read-path.ts'
import { derive, type Message, payloadOf } from '../message.ts'
import { compileRemove } from '../paths/remove.ts'
import { compileSet, type Setter } from '../paths/set.ts'
import { type Transform, TransformError } from '../transform.ts'

export const flatten: Transform<'flatten'> = {
  type: 'flatten',
  build({ field }) {
    const read = compileRead(field.segments)
    const remove = compileRemove(field.segments)
    const put = compileSet('flatten', field)
    return (message) => {
      const payload = payloadOf(message)
      if (!isRecord(payload)) return [message]
      const elements = elementsOf(read(payload))
      if (elements === undefined) return [message]
      const parent = remove(payload, { isOwned: message.isOwned, hits: 0 }) as JsonObject
      return split(message, parent, elements, put, field)
    }
  },
}

/** The array, also within the wrapper that Avro puts around one. */
function elementsOf(value: Json | undefined): Json[] | undefined {
  if (Array.isArray(value)) return value
  if (!isRecord(value) || !Array.isArray(value['array']) || Object.keys(value).length !== 1) return undefined
  return value['array']
}

function split(message: Message, parent: JsonObject, elements: Json[], put: Setter, field: Path): readonly Message[] {
  if (elements.length === 0) return [derive(message, parent, message.isOwned)]
  checkSize(parent, elements.length, field)
  // Values of the parent that are objects or arrays are the same ones in every output.
  const isOwned = message.isOwned && (elements.length === 1 || !Object.values(parent).some(isComposite))
  return elements.map((element) => {
    const json = isRecord(element) ? { ...parent, ...element } : put(parent, element, false)
    return derive(message, json, isOwned)
  })
}

/** The parent is written once per element: a large one times many elements would be an attack on memory. */
const outputSizeMax = 64 << 20
const elementsMax = 100_000

function checkSize(parent: JsonObject, count: number, field: Path): void {
  if (count <= 100) return
  if (count > elementsMax || count * sizeOf(parent) > outputSizeMax)
    throw new TransformError('flatten', field.text, 'the array has too many elements', 'fan_out')
}

/** About as many characters as the value prints to. */
function sizeOf(value: Json): number {
  if (typeof value === 'string') return value.length + 2
  if (!isComposite(value)) return 5
  let size = 2
  if (Array.isArray(value)) for (const element of value) size += sizeOf(element) + 1
  else for (const key of Object.keys(value)) size += key.length + 4 + sizeOf(value[key]!)
  return size
}
