// hoistField: puts the whole payload under one key.
import { type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withPayload } from '../message/message.ts'
import type { Transform } from './transform.ts'

export const hoistField: Transform<'hoistField'> = {
  type: 'hoistField',
  build:
    ({ field }) =>
    (message) => {
      const hoisted: JsonObject = {}
      setKey(hoisted, field, getPayload(message)!)
      return [withPayload(message, hoisted, message.isOwned)]
    },
}
