// All filters by name. `default` is evaluated with its name in evaluate.ts.
import type { Arguments } from './arguments.ts'
import type { Budget } from './budget.ts'
import { listFilters } from './list-filters.ts'
import { textFilters } from './text-filters.ts'
import { valueFilters } from './value-filters.ts'
import type { Value } from './values.ts'

/** Counts what it creates on the budget before it creates it. */
export type Filter = (budget: Budget, value: Value, args: Arguments) => Value

export const filters: ReadonlyMap<string, Filter> = new Map(Object.entries({ ...textFilters, ...listFilters, ...valueFilters }))
