// Built-in filters and functions of templates.
import { type Arguments, booleanArgument, countArgument } from './arguments.ts'
import type { Budget } from './budget.ts'
import { listFilters } from './list-filters.ts'
import { RenderError } from './template-errors.ts'
import { textFilters } from './text-filters.ts'
import { valueFilters } from './value-filters.ts'
import type { Value } from './values.ts'

// All filters by name. `default` is evaluated with its name in evaluate.ts.

/** Counts what it creates on the budget before it creates it. */
export type Filter = (budget: Budget, value: Value, args: Arguments) => Value

export const filters: ReadonlyMap<string, Filter> = new Map(Object.entries({ ...textFilters, ...listFilters, ...valueFilters }))

// Functions of templates: range, now, throw. There is none that reads the environment or chance, so every rendering is repeatable.

type TemplateFunction = (context: { readonly budget: Budget; readonly now: Date }, values: ReadonlyMap<string, Value>) => Value

const table: Readonly<Record<string, TemplateFunction>> = {
  range: ({ budget }, values) => {
    const args = { filter: 'range', values }
    const [start, end, step] = [countArgument(args, 'start', 0n), countArgument(args, 'end'), countArgument(args, 'step_by', 1n)]
    if (start > end) throw new RenderError('range needs a start that is not greater than its end')
    if (step === 0) throw new RenderError('range needs step_by=a positive integer')
    const length = Math.ceil((end - start) / step)
    budget.items(length)
    return Array.from({ length }, (_, index) => BigInt(start + index * step))
  },
  now: ({ now }, values) => {
    const args = { filter: 'now', values }
    if (booleanArgument(args, 'timestamp')) return BigInt(Math.floor(now.getTime() / 1000))
    return now.toISOString().replace('Z', '+00:00')
  },
  // The message may contain values of parameters, so it is not shown.
  throw: () => {
    throw new RenderError('the template called throw')
  },
}
export const functions: ReadonlyMap<string, TemplateFunction> = new Map(Object.entries(table))
