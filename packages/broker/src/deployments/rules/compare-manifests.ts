// Compares two manifests object by object. Objects are identified by group, kind, namespace and name.
import { isDeepStrictEqual } from 'node:util'
import type { DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import type { JsonObject, JsonValue, ManifestDocument } from '@brokkr/contract/manifest/manifest.ts'

type Change = DryRun['objects'][number]

/** Objects of the new manifest in its order, then removed ones. */
export function compareManifests(before: readonly ManifestDocument[], after: readonly ManifestDocument[]): Change[] {
  const previousByKey = new Map(before.map(({ object }) => [toObjectKey(object), object]))
  const currentKeys = new Set(after.map(({ object }) => toObjectKey(object)))
  const currentChanges = after.map(({ object }) => toChange(object, classifyChange(previousByKey.get(toObjectKey(object)), object)))
  const removals = [...previousByKey].filter(([key]) => !currentKeys.has(key)).map(([, object]) => toChange(object, 'removed'))
  return [...currentChanges, ...removals]
}

function classifyChange(before: JsonObject | undefined, after: JsonObject): Change['change'] {
  if (before === undefined) return 'added'
  return isDeepStrictEqual(before, after) ? 'unchanged' : 'changed'
}

function toChange(object: JsonObject, kindOfChange: Change['change']): Change {
  const { namespace, name } = readMetadata(object)
  return {
    api_version: toText(object['apiVersion']),
    kind: toText(object['kind']),
    namespace: namespace === '' ? null : namespace,
    name,
    change: kindOfChange,
  }
}

/** Ignores the API version: a new version of a group addresses the same object. */
function toObjectKey(object: JsonObject): string {
  const version = toText(object['apiVersion'])
  const group = version.includes('/') ? version.slice(0, version.indexOf('/')) : ''
  const { namespace, name } = readMetadata(object)
  return JSON.stringify([group, toText(object['kind']), namespace, name])
}

function readMetadata(object: JsonObject): { namespace: string; name: string } {
  const metadata = object['metadata']
  const fields = typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata) ? metadata : {}
  return { namespace: toText(fields['namespace']), name: toText(fields['name']) }
}

const toText = (value: JsonValue | undefined): string => (typeof value === 'string' ? value : '')
