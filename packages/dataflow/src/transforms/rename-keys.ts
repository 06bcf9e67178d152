// Renames keys of objects by a rule. Each name is computed once and cached, because a flow sees the same few keys.
import { isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withPayload } from '../message/message.ts'
import type { Step, StepContext } from './transform.ts'

export function renameKeys(rename: (key: string) => string, deep: boolean): Step {
  const names = openNames(rename)
  return (message, context) => {
    const payload = getPayload(message)!
    const renamed = deep ? renameDeep(payload, names, context) : renameRoot(payload, names, context)
    return [renamed === payload ? message : withPayload(message, renamed, message.isOwned)]
  }
}

/** New names of the keys of one kind of object. */
interface Plan {
  readonly keys: readonly string[]
  readonly names: readonly string[]
  readonly isChanged: boolean
  readonly collisions: number
}

interface Names {
  planFor(keys: readonly string[]): Plan
}

/** One plan is cached per number of keys: enough for similar objects, and bounded. */
function openNames(rename: (key: string) => string): Names {
  const toName = cacheNames(rename)
  const plans: (Plan | undefined)[] = Array.from({ length: 64 })
  return {
    planFor: (keys) => {
      const slot = keys.length % plans.length
      const cachedPlan = plans[slot]
      if (cachedPlan !== undefined && isSameList(cachedPlan.keys, keys)) return cachedPlan
      const names = keys.map(toName)
      const plan = { keys, names, isChanged: names.some((name, i) => name !== keys[i]), collisions: names.length - new Set(names).size }
      if (keys.length <= planKeysMax) plans[slot] = plan
      return plan
    },
  }
}

const planKeysMax = 256

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false
  for (let i = 0; i < left.length; i += 1) if (left[i] !== right[i]) return false
  return true
}

/** Bounded, because payloads determine the keys. */
const namesMax = 10_000
const nameLengthMax = 256

function cacheNames(rename: (key: string) => string): (key: string) => string {
  const names = new Map<string, string>()
  return (key) => {
    const cachedName = names.get(key)
    if (cachedName !== undefined) return cachedName
    const name = rename(key)
    if (names.size < namesMax && key.length <= nameLengthMax) names.set(key, name)
    return name
  }
}

const renameRoot = (payload: Json, names: Names, context: StepContext): Json =>
  isRecord(payload) ? renameObject(payload, names, context, undefined) : payload

function renameDeep(value: Json, names: Names, context: StepContext): Json {
  if (Array.isArray(value)) {
    const renamed = value.map((element) => renameDeep(element, names, context))
    return renamed.some((element, i) => element !== value[i]) ? renamed : value
  }
  return isRecord(value) ? renameObject(value, names, context, renameDeep) : value
}

/** Returns the same object if no name changes. Of two keys with the same new name, the later wins. */
function renameObject(object: JsonObject, names: Names, context: StepContext, inner: typeof renameDeep | undefined): JsonObject {
  const plan = names.planFor(Object.keys(object))
  const { keys } = plan
  if (!plan.isChanged && inner === undefined) return object
  const renamed: JsonObject = {}
  let { isChanged } = plan
  for (let i = 0; i < keys.length; i += 1) {
    const before = object[keys[i]!]!
    const after = inner === undefined ? before : inner(before, names, context)
    if (after !== before) isChanged = true
    setKey(renamed, plan.names[i]!, after)
  }
  if (!isChanged) return object
  context.keyCollisions += plan.collisions
  return renamed
}
