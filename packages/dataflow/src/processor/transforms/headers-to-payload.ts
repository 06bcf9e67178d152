// headersToPayload: values of headers into the payload, as text.
import { isRecord, type Json, valueAt } from '@brokkr/contract/dataflow/json.ts'
import { stringForm } from '@brokkr/contract/dataflow/string-form.ts'
import { payloadOf, withPayload } from '../message.ts'
import { compileSet } from '../paths/set.ts'
import type { Transform } from '../transform.ts'

export const headersToPayload: Transform<'headersToPayload'> = {
  type: 'headersToPayload',
  build({ mappings }) {
    const setters = mappings.map(({ header, to }) => ({ header, set: compileSet('headersToPayload', to) }))
    return (message) => {
      const payload = payloadOf(message)
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
