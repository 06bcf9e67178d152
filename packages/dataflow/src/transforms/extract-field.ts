// extractField: one value of any type becomes the payload.
import { compileRead } from '@brokkr/contract/dataflow/language/read-path.ts'
import { getPayload, withPayload } from '../message/message.ts'
import type { Transform } from './transform.ts'

export const extractField: Transform<'extractField'> = {
  type: 'extractField',
  build({ field }) {
    const read = compileRead(field.segments)
    return (message) => {
      const payload = getPayload(message)
      const value = read(payload)
      return [value === undefined || value === payload ? message : withPayload(message, value, message.isOwned)]
    }
  },
}
