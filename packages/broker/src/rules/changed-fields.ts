// Names of changed fields. A request that changes nothing is neither written nor audited.
export function changedFields<T extends object>(before: { readonly [K in keyof T]: unknown }, after: T): (keyof T & string)[] {
  return (Object.keys(after) as (keyof T & string)[]).filter((field) => before[field] !== after[field])
}
