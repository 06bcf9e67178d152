// The names of what a change would change: nothing is written, and no deed recorded, for a request that changes nothing.
export function changedFields<T extends object>(before: { readonly [K in keyof T]: unknown }, after: T): (keyof T & string)[] {
  return (Object.keys(after) as (keyof T & string)[]).filter((field) => before[field] !== after[field])
}
