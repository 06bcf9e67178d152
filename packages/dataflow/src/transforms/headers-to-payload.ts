// headersToPayload: copies header values into the payload, as text.
import { isRecord, type Json, valueAt } from '@brokkr/contract/dataflow/language/json.ts'
import { stringForm } from '@brokkr/contract/dataflow/language/string-form.ts'
import { getPayload, withPayload } from '../message/message.ts'
import { compileSet } from './paths/set-value.ts'
import type { Transform } from './transform.ts'

export const headersToPayload: Transform<'headersToPayload'> = {
  type: 'headersToPayload',
  build({ mappings }) {
    const setters = mappings.map(({ header, to }) => ({ header, set: compileSet('headersToPayload', to) }))
    return (message) => {
      const payload = getPayload(message)
      const headers = message.metadata['headers'] as Json | undefined
      if (!isRecord(payload) || !isRecord(headers)) return [message]
      let root: Json = payload
      let isChanged = false
      for (const { header, set } of setters) {
        const value = valueAt(headers, header)
        if (value === undefined) continue
        root = set(root, stringForm(value), message.isOwned)
        isChanged = true
      }
      return [isChanged ? withPayload(message, root, message.isOwned) : message]
    }
  },
}
