// What an answer must look like: the recorded one after every difference that names its number.
import type { Difference, Exchange } from './v1-exchange.fixture.ts'

export interface Expectation {
  /** Null: the exchange is left out. */
  readonly status: number | null
  readonly contentType: string | null
  readonly body: ExpectedBody
  /** Names that must be there, or must not; a star at the end stands for anything. */
  readonly headers: readonly { readonly name: string; readonly value: string | null; readonly isThere: boolean }[]
  readonly isOrdered: boolean
}

export type ExpectedBody =
  | { readonly is: 'any' }
  | { readonly is: 'empty' }
  | { readonly is: 'text'; readonly text: string }
  | { readonly is: 'error'; readonly code: string }
  /** Key set and types of this value, nothing else. */
  | { readonly is: 'shape'; readonly like: unknown }
  | {
      readonly is: 'value'
      readonly value: unknown
      /** Keys whose values are free. */
      readonly free: ReadonlySet<string>
      /** Rows ours has beyond the recorded ones; null: any number, more or less. */
      readonly moreRows: number | null
    }

/** `successOf`: a recorded success of the same operation, for differences that turn a refusal into one. */
export function expectationOf(
  exchange: Exchange,
  differences: readonly Difference[],
  successOf: (op: string, status: number) => Exchange | undefined,
): Expectation {
  const applied = differences.filter(({ seq }) => seq.includes(exchange.seq))
  const status = applied.find(({ field }) => field === 'status')
  const base = status === undefined ? recorded(exchange) : changedStatus(exchange, status, successOf)
  const ofBody = applied.filter(({ field }) => field === 'body').map(({ ours }) => ours)
  // What is missing is missing before rows are counted.
  const body = ofBody.toSorted((left, right) => rank(left) - rank(right)).reduce(changeBody, base)
  return {
    ...body,
    headers: [...headersOf(exchange, applied)],
    isOrdered: !applied.some(({ field }) => field === 'order'),
  }
}

const rank = (ours: string): number => (ours.startsWith('without') ? 0 : 1)

type Base = Pick<Expectation, 'status' | 'contentType' | 'body'>
const json = 'application/json'

function recorded({ status, content_type: contentType, response_body: value, response_text: text }: Exchange): Base {
  if (text !== undefined) return { status, contentType, body: { is: 'text', text } }
  if (value === null || value === undefined) return { status, contentType, body: { is: 'empty' } }
  // A page or a document that was not kept.
  if (typeof value === 'string' && /^<[^:]+>$/.test(value)) return { status, contentType, body: { is: 'any' } }
  return { status, contentType, body: { is: 'value', value, free: new Set(), moreRows: 0 } }
}

function changedStatus(exchange: Exchange, { ours }: Difference, successOf: (op: string, status: number) => Exchange | undefined): Base {
  const [word = '', code] = ours.split(' ')
  if (word === 'unsent') return { status: null, contentType: null, body: { is: 'any' } }
  const status = Number(word)
  if (code !== undefined) return { status, contentType: json, body: { is: 'error', code } }
  if (status === 401) return { status, contentType: null, body: { is: 'empty' } }
  const success = successOf(exchange.op, status)
  // Named by no recorded success (Prefer: return=representation): the operation's own test has its shape.
  if (success === undefined) return { status, contentType: json, body: { is: 'any' } }
  return { status, contentType: success.content_type, body: { is: 'shape', like: success.response_body } }
}

function changeBody(so: Base, ours: string): Base {
  if (ours === 'same') return so
  if (ours === 'any') return { ...so, body: { is: 'any' } }
  const [word, argument = ''] = ours.split(' ')
  if (word === 'code') return { ...so, contentType: json, body: { is: 'error', code: argument } }
  // Another difference has made an error of it, or set it free.
  if (so.body.is !== 'value') return so
  return { ...so, body: changeRows(so.body, ours) }
}

function changeRows(body: ExpectedBody & { is: 'value' }, ours: string): ExpectedBody {
  const rows = body.value as unknown[]
  if (ours === 'empty list') return { ...body, value: [] }
  if (ours === 'rows') return { ...body, moreRows: null }
  if (ours === 'times six digits') return body
  const [, free] = /^(\w+) any$/.exec(ours) ?? []
  if (free !== undefined) return { ...body, free: new Set([...body.free, free]) }
  const [, first] = /^first (\d+)$/.exec(ours) ?? []
  if (first !== undefined) return { ...body, value: rows.slice(0, Number(first)) }
  const [, more] = /^with (\d+) more$/.exec(ours) ?? []
  if (more !== undefined) return { ...body, moreRows: Number(more) }
  const [, missing] = /^without (.+)$/.exec(ours) ?? []
  if (missing === undefined) throw new Error(`nobody knows what "${ours}" means`)
  const gone = missing.split(' ')
  return { ...body, value: withoutRows(body.value, gone) }
}

/** Wherever a list stands in the answer. */
function withoutRows(value: unknown, gone: readonly string[]): unknown {
  if (Array.isArray(value)) return value.filter((row) => !gone.some((placeholder) => JSON.stringify(row).includes(placeholder)))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, withoutRows(entry, gone)]))
}

function* headersOf({ status, response_headers: recordedHeaders = {} }: Exchange, applied: readonly Difference[]) {
  const changed = applied.filter(({ field }) => field === 'header').flatMap(({ ours }) => ours.split(', '))
  for (const text of changed) {
    const [, sign, name = '', value] = /^([+-])([\w*-]+)(?:: (.+))?$/.exec(text) ?? []
    yield { name: name.toLowerCase(), value: value ?? null, isThere: sign === '+' }
  }
  if (status === 401) return
  for (const name of ['allow', 'location']) {
    const value = recordedHeaders[name]
    if (value !== undefined) yield { name, value, isThere: true }
  }
}
