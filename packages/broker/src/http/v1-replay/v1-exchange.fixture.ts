// Recorded exchanges with a server of the first version, the differences that are meant, and the placeholders both are written
// with: `<uuid:7>` is one id wherever it stands, bound to ours when it first appears in an answer.
import { readFileSync } from 'node:fs'

export interface Exchange {
  readonly seq: number
  readonly op: string
  readonly case: string
  readonly as: string
  readonly method: string
  readonly path: string
  readonly request_headers?: Readonly<Record<string, string>>
  readonly request_body?: unknown
  readonly request_text?: string
  readonly status: number
  readonly content_type: string | null
  readonly response_headers?: Readonly<Record<string, string>>
  readonly response_body?: unknown
  readonly response_text?: string
}

export interface Difference {
  readonly id: string
  readonly seq: readonly number[]
  readonly field: 'status' | 'body' | 'header' | 'order'
  /** The first words are the machine's. */
  readonly ours: string
  readonly why: string
}

const rowsOf = <T>(name: string): T[] =>
  readFileSync(new URL(`./fixtures/${name}.ndjson`, import.meta.url), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T)

export const readExchanges = (): Exchange[] => rowsOf<Exchange>('exchanges')
export const readDifferences = (): Difference[] => rowsOf<Difference>('differences')

export interface Bindings {
  get(placeholder: string): string | undefined
  /** Binds it when it is new; whether it stands for this value. */
  matches(placeholder: string, value: string): boolean
  /** The value with every placeholder replaced, or the first one that nothing is bound to yet. */
  fill(value: unknown): { readonly value: unknown } | { readonly unbound: string }
}

export const isPlaceholder = (value: unknown): value is string => typeof value === 'string' && /^<(uuid|pak):[^>]+>$/.test(value)

export function createBindings(given: Readonly<Record<string, string>>, now: () => string): Bindings {
  const bound = new Map(Object.entries(given))
  const fillText = (text: string): string =>
    text.replaceAll('<ts>', now).replace(/<(uuid|pak):[^>]+>/g, (placeholder) => {
      const value = bound.get(placeholder)
      if (value === undefined) throw new Unbound(placeholder)
      return value
    })
  const fillAny = (value: unknown): unknown => {
    if (typeof value === 'string') return fillText(value)
    if (Array.isArray(value)) return value.map(fillAny)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [fillText(key), fillAny(entry)]))
  }
  return {
    get: (placeholder) => bound.get(placeholder),
    matches: (placeholder, value) => {
      // A key's name is used again for the agent that comes after a deleted one.
      if (!bound.has(placeholder) || placeholder.startsWith('<pak')) bound.set(placeholder, value)
      return bound.get(placeholder) === value
    },
    fill: (value) => {
      try {
        return { value: fillAny(value) }
      } catch (error) {
        if (error instanceof Unbound) return { unbound: error.placeholder }
        throw error
      }
    },
  }
}

class Unbound extends Error {
  readonly placeholder: string

  constructor(placeholder: string) {
    super(`nothing is bound to ${placeholder}`)
    this.placeholder = placeholder
  }
}
