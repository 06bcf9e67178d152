// extractField: one value becomes the payload, whatever its type.
import { compileRead } from '@brokkr/contract/dataflow/read-path.ts'
import { payloadOf, withPayload } from '../message.ts'
import type { Transform } from '../transform.ts'

export const extractField: Transform<'extractField'> = {
  type: 'extractField',
  build({ field }) {
    const read = compileRead(field.segments)
    return (message) => {
      const payload = payloadOf(message)
      const value = read(payload)
      return [value === undefined || value === payload ? message : withPayload(message, value, message.isOwned)]
    }
  },
}
