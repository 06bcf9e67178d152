// structFlatten: flattens nested objects to one level with joined keys; arrays stay whole, empty objects are removed.
import { isRecord, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withPayload } from '../message/message.ts'
import { type Transform, TransformError } from './transform.ts'

/** Objects above a leaf, including the root. */
const parentsMax = 64

export const structFlatten: Transform<'structFlatten'> = {
  type: 'structFlatten',
  build: ({ delimiter }) => {
    return (message) => {
      const payload = getPayload(message)
      if (!isRecord(payload) || !Object.values(payload).some(isRecord)) return [message]
      const flat: JsonObject = {}
      spread(payload, '', delimiter, 1, flat)
      return [withPayload(message, flat, message.isOwned)]
    }
  },
}

/** In document order, so that the later of equal keys wins. */
function spread(object: JsonObject, prefix: string, delimiter: string, parents: number, flat: JsonObject): void {
  for (const key of Object.keys(object)) {
    const value = object[key]!
    const name = prefix + key
    if (isRecord(value)) {
      spread(value, name + delimiter, delimiter, parents + 1, flat)
      continue
    }
    if (parents > parentsMax) throw new TransformError('structFlatten', '$', `has a value below more than ${parentsMax} objects`)
    setKey(flat, name, value)
  }
}
