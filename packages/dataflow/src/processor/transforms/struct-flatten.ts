// structFlatten: nested objects to one level, keys joined; arrays stay whole, empty objects vanish.
import { isRecord, type JsonObject, setKey } from '@brokkr/contract/dataflow/json.ts'
import { payloadOf, withPayload } from '../message.ts'
import { type Transform, TransformError } from '../transform.ts'

/** Objects above a leaf, the root included. */
const parentsMax = 64

export const structFlatten: Transform<'structFlatten'> = {
  type: 'structFlatten',
  build: ({ delimiter }) => {
    return (message) => {
      const payload = payloadOf(message)
      if (!isRecord(payload) || !Object.values(payload).some(isRecord)) return [message]
      const flat: JsonObject = {}
      spread(payload, '', delimiter, 1, flat)
      return [withPayload(message, flat, message.isOwned)]
    }
  },
}

/** In document order, so that of equal keys the later wins. */
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
