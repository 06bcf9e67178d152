// Tells objects that do something (clients, transactions, streams) from data: only the former can hold an await.

/** Built-in holders of data look at their own inner slots and would refuse a proxy. */
const inert = [Date, RegExp, Map, Set, WeakMap, WeakSet, Error, ArrayBuffer, SharedArrayBuffer, URL, AbortSignal]

/** True for functions and for objects that have a method of their own or of their class. */
export function isActive(value: unknown): value is object {
  if (typeof value === 'function') return true
  if (typeof value !== 'object' || value === null || isData(value)) return false
  return prototypeChain(value).some((owner) => Reflect.ownKeys(owner).some((key) => isMethod(owner, key)))
}

/** True for object literals, regardless of content. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

function isData(value: object): boolean {
  return Array.isArray(value) || ArrayBuffer.isView(value) || inert.some((kind) => value instanceof kind)
}

/** The object and its prototypes, without the one that all have. */
function prototypeChain(value: object): object[] {
  const prototype = Object.getPrototypeOf(value) as object | null
  return prototype && prototype !== Object.prototype ? [value, ...prototypeChain(prototype)] : [value]
}

/** Getters are not called: they may do work. */
function isMethod(owner: object, key: string | symbol): boolean {
  return key !== 'constructor' && typeof Object.getOwnPropertyDescriptor(owner, key)?.value === 'function'
}
