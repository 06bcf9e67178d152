// mask: replaces every match of every path with text. Also used for the payload of a dead letter.
import { cloneJson, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { stringForm } from '@brokkr/contract/dataflow/language/string-form.ts'
import type { TransformConfig } from '@brokkr/contract/dataflow/spec/transforms.ts'
import { getPayload, withPayload } from '../message/message.ts'
import { compileEdit, type Edit, type Editor } from './paths/edit.ts'
import { changePlace, compileFind, type Match } from './paths/find-matches.ts'
import type { Transform } from './transform.ts'

export const mask: Transform<'mask'> = {
  type: 'mask',
  build(config) {
    const apply = compileMask(config)
    return (message) => {
      const edit = { isOwned: message.isOwned, hits: 0 }
      const masked = apply(getPayload(message)!, edit)
      return [edit.hits === 0 ? message : withPayload(message, masked, message.isOwned)]
    }
  },
}

/** A query may read a value that another path masks, so all matches are found before the first one changes. */
export function compileMask(config: TransformConfig<'mask'>): Editor {
  const change = compileMaskValue(config)
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
    const matches: Match[] = []
    for (const find of finders) find(payload, matches)
    for (const place of matches) changePlace(place, change)
    edit.hits += matches.length
    return payload
  }
}

/** Three mask characters, or one per character of the string form. */
function compileMaskValue({ maskChar, keepLength }: TransformConfig<'mask'>): (value: Json) => Json {
  const fixed = maskChar.repeat(3)
  return keepLength ? (value) => maskChar.repeat(characterCount(stringForm(value))) : () => fixed
}

/** Counts code points: a surrogate pair is one. */
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
