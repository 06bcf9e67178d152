// Reads values from objects of unknown shape; a value of the wrong type counts as absent.
import type { Fields } from './object.ts'

export function valueAt(root: unknown, ...path: ReadonlyArray<string | number>): unknown {
  let value = root
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined
    value = Object.hasOwn(value, step) ? (value as Record<string | number, unknown>)[step] : undefined
  }
  return value
}

export const textAt = (root: unknown, ...path: ReadonlyArray<string | number>): string | undefined => {
  const value = valueAt(root, ...path)
  return typeof value === 'string' ? value : undefined
}

export const numberAt = (root: unknown, ...path: ReadonlyArray<string | number>): number | undefined => {
  const value = valueAt(root, ...path)
  return typeof value === 'number' ? value : undefined
}

export const flagAt = (root: unknown, ...path: ReadonlyArray<string | number>): boolean => valueAt(root, ...path) === true

export const fieldsAt = (root: unknown, ...path: ReadonlyArray<string | number>): Fields | undefined => {
  const value = valueAt(root, ...path)
  return isFields(value) ? value : undefined
}

/** Skips entries that are not objects. */
export const rowsAt = (root: unknown, ...path: ReadonlyArray<string | number>): Fields[] => {
  const value = valueAt(root, ...path)
  return Array.isArray(value) ? value.filter(isFields) : []
}

export const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)
