// What a new manifest would change, object by object: two objects are the same thing when group, kind, namespace and name are.
import { isDeepStrictEqual } from 'node:util'
import type { DryRun } from '@brokkr/contract/deployment-object.ts'
import type { JsonObject, JsonValue, ManifestDocument } from '@brokkr/contract/manifest.ts'

type Change = DryRun['objects'][number]

/** Those of the new manifest in its order, then what would be gone. */
export function compareManifests(before: readonly ManifestDocument[], after: readonly ManifestDocument[]): Change[] {
  const old = new Map(before.map(({ object }) => [keyOf(object), object]))
  const kept = new Set(after.map(({ object }) => keyOf(object)))
  const shown = after.map(({ object }) => change(object, changeOf(old.get(keyOf(object)), object)))
  const gone = [...old].filter(([key]) => !kept.has(key)).map(([, object]) => change(object, 'removed'))
  return [...shown, ...gone]
}

function changeOf(before: JsonObject | undefined, after: JsonObject): Change['change'] {
  if (before === undefined) return 'added'
  return isDeepStrictEqual(before, after) ? 'unchanged' : 'changed'
}

function change(object: JsonObject, what: Change['change']): Change {
  const { namespace, name } = metadataOf(object)
  return {
    api_version: textOf(object['apiVersion']),
    kind: textOf(object['kind']),
    namespace: namespace === '' ? null : namespace,
    name,
    change: what,
  }
}

/** A new version of the same group is still the same thing. */
function keyOf(object: JsonObject): string {
  const version = textOf(object['apiVersion'])
  const group = version.includes('/') ? version.slice(0, version.indexOf('/')) : ''
  const { namespace, name } = metadataOf(object)
  return JSON.stringify([group, textOf(object['kind']), namespace, name])
}

function metadataOf(object: JsonObject): { namespace: string; name: string } {
  const metadata = object['metadata']
  const fields = typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata) ? metadata : {}
  return { namespace: textOf(fields['namespace']), name: textOf(fields['name']) }
}

const textOf = (value: JsonValue | undefined): string => (typeof value === 'string' ? value : '')
