// Takes the values of Secrets out of a manifest, for readers who may see what runs but not what is secret. Names of keys
// stay. A text that holds no Secret is returned as it is; one that cannot be read is not shown at all.
import { type JsonObject, type JsonValue, ManifestError, parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { yamlText } from '@brokkr/contract/manifest/yaml-text.ts'

const masked = '***'
/** Stands for a text that cannot be read. */
export const notShown = '# not shown: the text cannot be read, so nobody can tell whether it holds secrets\n'

export function maskManifest(text: string): string {
  if (!mayHoldSecret(text)) return text
  try {
    const objects = parseManifest(text).map(({ object }) => object)
    return objects.some(holdsSecret) ? objects.map((object) => yamlText(maskValue(object))).join('---\n') : text
  } catch (error) {
    if (error instanceof ManifestError) return notShown
    throw error
  }
}

/** The word itself, or an escape that could spell it. */
const mayHoldSecret = (text: string): boolean => text.includes('Secret') || text.includes('\\')

function holdsSecret(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.some(holdsSecret)
  return isObject(value) && (isSecret(value) || Object.values(value).some(holdsSecret))
}

/** Of any group and at any depth: in a list, in a template, in an object of an unknown kind. */
const isSecret = (value: JsonObject): boolean => value['kind'] === 'Secret'
const isObject = (value: JsonValue | undefined): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

function maskValue(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(maskValue)
  if (!isObject(value)) return value
  return mapped(value, (key, item) => {
    if (isSecret(value) && (key === 'data' || key === 'stringData')) return everyLeaf(item)
    if (isSecret(value) && key === 'metadata' && isObject(item)) return maskMetadata(item)
    return maskValue(item)
  })
}

/** kubectl keeps a copy of the whole object, values included, in an annotation. */
const maskMetadata = (metadata: JsonObject): JsonValue =>
  mapped(metadata, (key, item) =>
    key === 'annotations' && isObject(item) ? mapped(item, (name, text) => (/last-(applied|config)/.test(name) ? masked : text)) : item,
  )

function everyLeaf(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(everyLeaf)
  return isObject(value) ? mapped(value, (_, item) => everyLeaf(item)) : masked
}

function mapped(object: JsonObject, change: (key: string, item: JsonValue) => JsonValue): JsonObject {
  const result = Object.create(null) as JsonObject
  for (const [key, item] of Object.entries(object)) result[key] = change(key, item)
  return result
}
