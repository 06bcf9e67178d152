// mask: every match of every path becomes text. Also used for the payload of a dead letter.
import { cloneJson, type Json } from '@brokkr/contract/dataflow/json.ts'
import { stringForm } from '@brokkr/contract/dataflow/string-form.ts'
import type { TransformConfig } from '@brokkr/contract/dataflow/transforms.ts'
import { payloadOf, withPayload } from '../message.ts'
import { compileEdit, type Edit, type Editor } from '../paths/edit.ts'
import { changePlace, compileFind, type FoundPlace } from '../paths/places.ts'
import type { Transform } from '../transform.ts'

export const mask: Transform<'mask'> = {
  type: 'mask',
  build(config) {
    const apply = compileMask(config)
    return (message) => {
      const edit = { isOwned: message.isOwned, hits: 0 }
      const masked = apply(payloadOf(message)!, edit)
      return [edit.hits === 0 ? message : withPayload(message, masked, message.isOwned)]
    }
  },
}

/** A query may look at a value that another path masks: then all places are found before the first one changes. */
export function compileMask(config: TransformConfig<'mask'>): Editor {
  const change = changeOf(config)
  const hasQuery = config.fields.some(({ segments }) => segments.some(({ kind }) => kind === 'query'))
  if (hasQuery && config.fields.length > 1) return maskFound(config, change)
  const editors = config.fields.map(({ segments }) => compileEdit(segments, change))
  const [only] = editors
  return editors.length === 1 ? only! : (root, edit) => editors.reduce((payload, editor) => editor(payload, edit), root)
}

function maskFound(config: TransformConfig<'mask'>, change: (value: Json) => Json): Editor {
  const finders = config.fields.map(({ segments }) => compileFind(segments))
  return (root: Json, edit: Edit) => {
    const payload = edit.isOwned ? root : cloneJson(root)
    const found: FoundPlace[] = []
    for (const find of finders) find(payload, found)
    for (const place of found) changePlace(place, change)
    edit.hits += found.length
    return payload
  }
}

/** Three mask characters, or one per character of the string form. */
function changeOf({ maskChar, keepLength }: TransformConfig<'mask'>): (value: Json) => Json {
  const fixed = maskChar.repeat(3)
  return keepLength ? (value) => maskChar.repeat(characterCount(stringForm(value))) : () => fixed
}

/** Code points: a pair of surrogates is one. */
function characterCount(text: string): number {
  let count = text.length
  for (let i = 0; i < text.length; i += 1) {
    if (text.codePointAt(i)! > 0xffff) {
      count -= 1
      i += 1
    }
  }
  return count
}
