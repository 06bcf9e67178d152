// Names that a template sees while it is rendered: the parameters, `set` variables, loop variables and arguments of macros.
import { isList, isMap, type Value, type ValueMap } from './values.ts'

interface Scope {
  readonly kind: 'template' | 'macro' | 'loop'
  readonly names: Map<string, Value>
}

export class Scopes {
  readonly #parameters: ValueMap
  readonly #scopes: Scope[] = [{ kind: 'template', names: new Map() }]

  constructor(parameters: ValueMap) {
    this.#parameters = parameters
  }

  /** Undefined: no scope has the whole path. A macro sees its arguments and the parameters, not the variables of its caller. */
  find(name: string, segments: readonly string[]): Value | undefined {
    for (let at = this.#scopes.length - 1; at >= 0; at -= 1) {
      const scope = this.#scopes[at] as Scope
      const value = resolve(scope.names.get(name), segments)
      if (value !== undefined) return value
      if (scope.kind === 'macro') break
    }
    return resolve(this.#parameters.get(name), segments)
  }

  set(name: string, value: Value, isGlobal: boolean): void {
    const scope = isGlobal ? this.#scopes.findLast(({ kind }) => kind !== 'loop') : this.#scopes.at(-1)
    scope?.names.set(name, value)
  }

  /** Every round of a loop and every call of a macro has its own names. */
  within<T>(kind: 'macro' | 'loop', names: Map<string, Value>, run: () => T): T {
    this.#scopes.push({ kind, names })
    try {
      return run()
    } finally {
      this.#scopes.pop()
    }
  }

  get isInLoop(): boolean {
    return this.#scopes.at(-1)?.kind === 'loop'
  }
}

/** The value below `value`; undefined if a key or index is missing. */
export function resolve(value: Value | undefined, segments: readonly string[]): Value | undefined {
  let current = value
  for (const segment of segments) {
    if (current === undefined || current === null) return undefined
    if (isMap(current)) current = current.get(segment)
    else if (isList(current)) current = /^(?:0|[1-9]\d*)$/.test(segment) ? current[Number(segment)] : undefined
    else return undefined
  }
  return current
}
