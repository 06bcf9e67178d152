// hoistField: the whole payload under one key.
import { type JsonObject, setKey } from '@brokkr/contract/dataflow/json.ts'
import { payloadOf, withPayload } from '../message.ts'
import type { Transform } from '../transform.ts'

export const hoistField: Transform<'hoistField'> = {
  type: 'hoistField',
  build:
    ({ field }) =>
    (message) => {
      const hoisted: JsonObject = {}
      setKey(hoisted, field, payloadOf(message)!)
      return [withPayload(message, hoisted, message.isOwned)]
    },
}
