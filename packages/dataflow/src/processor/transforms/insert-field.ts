// insertField: fixed values, metadata or the time into the payload.
import { instantText } from '@brokkr/contract/dataflow/instant.ts'
import { cloneJson, isRecord, type Json } from '@brokkr/contract/dataflow/json.ts'
import type { InsertValue } from '@brokkr/contract/dataflow/kinds-transform.ts'
import { compileRead } from '@brokkr/contract/dataflow/read-path.ts'
import { metadataJson, stringForm } from '@brokkr/contract/dataflow/string-form.ts'
import { parseLossless } from '../json.ts'
import { type Message, payloadOf, withPayload } from '../message.ts'
import { compileSet } from '../paths/set.ts'
import type { StepContext, Transform } from '../transform.ts'

export const insertField: Transform<'insertField'> = {
  type: 'insertField',
  build({ fields }) {
    const inserts = fields.map(({ path, value }) => ({ set: compileSet('insertField', path), valueFor: compileValue(value) }))
    return (message, context) => {
      const payload = payloadOf(message)
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
    // Each message gets its own copy: a later step may write into it.
    const json = parseLossless(value.text)
    return () => cloneJson(json)
  }
  const read = compileRead(value.segments)
  return ({ metadata }) => {
    const found = metadataJson(read(metadata as unknown as Json))
    return found === undefined ? '' : stringForm(found)
  }
}
