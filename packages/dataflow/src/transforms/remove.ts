// remove: removes fields from the payload.
import { isRecord, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import type { Path } from '@brokkr/contract/dataflow/language/path.ts'
import { getPayload, withPayload } from '../message/message.ts'
import type { Edit, Editor } from './paths/edit.ts'
import { compileRemove, withoutKeys } from './paths/remove.ts'
import type { Transform } from './transform.ts'

export const remove: Transform<'remove'> = {
  type: 'remove',
  build({ fields }) {
    const apply = compileRemoveAll(fields)
    return (message) => {
      const edit = { isOwned: message.isOwned, hits: 0 }
      const payload = apply(getPayload(message)!, edit)
      return [edit.hits === 0 ? message : withPayload(message, payload, message.isOwned)]
    }
  },
}

/** In list order; adjacent root keys are removed in one pass. */
function compileRemoveAll(fields: readonly Path[]): Editor {
  const editors: Editor[] = []
  for (let i = 0; i < fields.length; ) {
    const keys = leadingRootKeys(fields, i)
    editors.push(keys.length > 1 ? removeRootKeys(new Set(keys)) : compileRemove(fields[i]!.segments))
    i += Math.max(keys.length, 1)
  }
  const [only] = editors
  return editors.length === 1 ? only! : (root, edit) => editors.reduce((payload, editor) => editor(payload, edit), root)
}

function leadingRootKeys(fields: readonly Path[], from: number): string[] {
  const keys: string[] = []
  for (const { segments } of fields.slice(from)) {
    const [only] = segments
    if (segments.length !== 1 || only!.kind !== 'key') break
    keys.push(only!.key)
  }
  return keys
}

const removeRootKeys =
  (keys: ReadonlySet<string>): Editor =>
  (root: Json, edit: Edit) =>
    isRecord(root) ? withoutKeys(root, (key) => keys.has(key), edit) : root
