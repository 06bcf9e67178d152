// replaceField: keeps or leaves out places, then moves some. Parents that lose their last key by that go too.
import { isRecord, type Json } from '@brokkr/contract/dataflow/json.ts'
import type { Rename } from '@brokkr/contract/dataflow/kinds-language.ts'
import { printPath } from '@brokkr/contract/dataflow/path-print.ts'
import { compileRead } from '@brokkr/contract/dataflow/read-path.ts'
import type { TransformConfig } from '@brokkr/contract/dataflow/transforms.ts'
import { payloadOf, withPayload } from '../message.ts'
import type { Editor } from '../paths/edit.ts'
import { compileProject } from '../paths/project.ts'
import { compileRemove } from '../paths/remove.ts'
import { compileSet } from '../paths/set.ts'
import type { Transform } from '../transform.ts'

export const replaceField: Transform<'replaceField'> = {
  type: 'replaceField',
  build(config) {
    const editors = [...keepers(config), ...(config.renames ?? []).map(compileRename)]
    return (message) => {
      const payload = payloadOf(message)
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
