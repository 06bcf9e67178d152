// insertField: sets fixed values, metadata or the time in the payload.

import type { InsertValue } from '@brokkr/contract/dataflow/fields/kinds-transform.ts'
import { instantText } from '@brokkr/contract/dataflow/language/instant.ts'
import { cloneJson, isRecord, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { compileRead } from '@brokkr/contract/dataflow/language/read-path.ts'
import { metadataJson, stringForm } from '@brokkr/contract/dataflow/language/string-form.ts'
import { parseLossless } from '../message/json.ts'
import { getPayload, type Message, withPayload } from '../message/message.ts'
import { compileSet } from './paths/set-value.ts'
import type { StepContext, Transform } from './transform.ts'

export const insertField: Transform<'insertField'> = {
  type: 'insertField',
  build({ fields }) {
    const inserts = fields.map(({ path, value }) => ({ set: compileSet('insertField', path), valueFor: compileValue(value) }))
    return (message, context) => {
      const payload = getPayload(message)
      if (!isRecord(payload)) return [message]
      let root: Json = payload
      for (const { set, valueFor } of inserts) root = set(root, valueFor(message, context), message.isOwned)
      return [withPayload(message, root, message.isOwned)]
    }
  },
}

type ValueFor = (message: Message, context: StepContext) => Json

function compileValue(value: InsertValue): ValueFor {
  if (value.kind === 'text') return () => value.text
  if (value.kind === 'now') return (_message, { nowMs }) => instantText(new Date(Math.floor(nowMs / 1000) * 1000))
  if (value.kind === 'json') {
    // A copy per message, because a later step may change it.
    const json = parseLossless(value.text)
    return () => cloneJson(json)
  }
  const read = compileRead(value.segments)
  return ({ metadata }) => {
    const metadataValue = metadataJson(read(metadata as unknown as Json))
    return metadataValue === undefined ? '' : stringForm(metadataValue)
  }
}
