// replaceField: keeps or removes fields, then renames some. Parents that lose their last key are removed too.

import type { Rename } from '@brokkr/contract/dataflow/fields/kinds-language.ts'
import { isRecord, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { printPath } from '@brokkr/contract/dataflow/language/path-print.ts'
import { compileRead } from '@brokkr/contract/dataflow/language/read-path.ts'
import type { TransformConfig } from '@brokkr/contract/dataflow/spec/transforms.ts'
import { getPayload, withPayload } from '../message/message.ts'
import type { Editor } from './paths/edit.ts'
import { compileProject } from './paths/project.ts'
import { compileRemove } from './paths/remove.ts'
import { compileSet } from './paths/set-value.ts'
import type { Transform } from './transform.ts'

export const replaceField: Transform<'replaceField'> = {
  type: 'replaceField',
  build(config) {
    const editors = [...keepers(config), ...(config.renames ?? []).map(compileRename)]
    return (message) => {
      const payload = getPayload(message)
      if (!isRecord(payload)) return [message]
      const edit = { isOwned: message.isOwned, hits: 0 }
      const replaced = editors.reduce<Json>((root, editor) => editor(root, edit), payload)
      return [edit.hits === 0 ? message : withPayload(message, replaced, message.isOwned)]
    }
  },
}

function keepers({ include, exclude }: TransformConfig<'replaceField'>): Editor[] {
  if (include !== undefined) {
    const project = compileProject(include.map(({ segments }) => segments))
    return [
      (root, edit) => {
        edit.hits += 1
        return project(root) ?? {}
      },
    ]
  }
  return (exclude ?? []).map(({ segments }) => compileRemove(segments, { dropsEmptied: true }))
}

function compileRename({ from, to }: Rename): Editor {
  if (printPath(from.segments) === printPath(to.segments)) return (root) => root
  const read = compileRead(from.segments)
  const remove = compileRemove(from.segments, { dropsEmptied: true })
  const set = compileSet('replaceField', to)
  return (root, edit) => {
    const value = read(root)
    if (value === undefined) return root
    return set(remove(root, edit), value, edit.isOwned)
  }
}
