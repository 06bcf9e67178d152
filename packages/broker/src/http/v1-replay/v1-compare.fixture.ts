// Compares an answer of ours with what was recorded: status, content type, code, constraint, keys, types, null against absent,
// number and order of rows, and every id that is known by now. Texts for people are not compared.
import { type Bindings, isPlaceholder } from './v1-exchange.fixture.ts'
import type { Expectation } from './v1-expectation.fixture.ts'

export interface OurAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** Everything in which the two differ, in words; ids seen for the first time are bound on the way. */
export function compareAnswer(bindings: Bindings, expected: Expectation, ours: OurAnswer): string[] {
  if (ours.status !== expected.status) return [`status ${ours.status} instead of ${expected.status}: ${ours.text.slice(0, 300)}`]
  const types = [expected.contentType, ours.headers['content-type'] ?? null].map(essence)
  const faults = types[0] === types[1] ? [] : [`content type ${types[1]} instead of ${types[0]}`]
  return [...faults, ...headerFaults(expected, ours), ...bodyFaults(bindings, expected, ours.text)]
}

const essence = (type: string | null): string | null => type?.split(';')[0]?.trim() ?? null

function headerFaults({ headers }: Expectation, ours: OurAnswer): string[] {
  return headers.flatMap(({ name, value, isThere }) => {
    const found = Object.keys(ours.headers).filter((one) => (name.endsWith('*') ? one.startsWith(name.slice(0, -1)) : one === name))
    if (found.length > 0 !== isThere) return [`header ${name} is ${isThere ? 'missing' : 'there'}`]
    const other = found.find((one) => value !== null && words(ours.headers[one]) !== words(value))
    return other === undefined ? [] : [`header ${name} is ${ours.headers[other]} instead of ${value}`]
  })
}

/** `GET,HEAD` and `HEAD, GET` say the same. */
const words = (value: string | undefined): string => (value ?? '').split(/,\s*/).toSorted().join()

function bodyFaults(bindings: Bindings, { body, isOrdered }: Expectation, text: string): string[] {
  if (body.is === 'any') return []
  if (body.is === 'empty') return text === '' ? [] : [`a body instead of none: ${text.slice(0, 200)}`]
  if (body.is === 'text') return text === body.text ? [] : [`the text ${text.slice(0, 200)} instead of ${body.text.slice(0, 200)}`]
  if (body.is === 'error') return errorFaults(JSON.parse(text) as Record<string, unknown>, body.code)
  if (body.is === 'shape') return shapeFaults(body.like, text === '' ? null : JSON.parse(text), '')
  return valueFaults({ bindings, free: body.free, moreRows: body.moreRows, isOrdered }, body.value, JSON.parse(text), '')
}

function errorFaults(ours: Record<string, unknown>, code: string): string[] {
  const others = Object.keys(ours).filter((key) => !['code', 'message', 'details'].includes(key))
  return [
    ...(ours['code'] === code ? [] : [`code ${String(ours['code'])} instead of ${code}`]),
    ...(typeof ours['message'] === 'string' ? [] : ['no message']),
    ...others.map((key) => `an error holds ${key}`),
  ]
}

function shapeFaults(like: unknown, ours: unknown, at: string): string[] {
  if (like === null || ours === null) return []
  if (typeOf(like) !== typeOf(ours)) return [`${at} is ${typeOf(ours)} instead of ${typeOf(like)}`]
  if (typeOf(like) !== 'object') return []
  return Object.entries(like as object).flatMap(([key, entry]) =>
    key in (ours as object) ? shapeFaults(entry, (ours as Record<string, unknown>)[key], `${at}.${key}`) : [`${at}.${key} is absent`],
  )
}

interface How {
  readonly bindings: Bindings
  readonly free: ReadonlySet<string>
  readonly moreRows: number | null
  readonly isOrdered: boolean
}

function valueFaults(how: How, expected: unknown, ours: unknown, at: string): string[] {
  const key = keyOf(at)
  if (how.free.has(key) || key === 'message') return ours === undefined ? [`${at} is absent`] : []
  if (ours === undefined) return [`${at} is absent`]
  if (expected === null) return []
  if (typeof expected === 'string') return textFaults(how.bindings, expected, ours, at)
  if (typeOf(expected) !== typeOf(ours)) return [`${at} is ${JSON.stringify(ours)} instead of ${JSON.stringify(expected)}`]
  if (Array.isArray(expected)) return listFaults(how, expected, ours as unknown[], at)
  if (typeof expected === 'object') return objectFaults(how, expected as Values, ours as Values, at)
  return typeof expected === 'boolean' && expected !== ours ? [`${at} is ${JSON.stringify(ours)}`] : []
}

const keyOf = (at: string): string => at.slice(at.lastIndexOf('.') + 1)

type Values = Readonly<Record<string, unknown>>

function textFaults(bindings: Bindings, expected: string, ours: unknown, at: string): string[] {
  const isFine = textFits(bindings, { expected, ours, key: keyOf(at) })
  return isFine ? [] : [`${at} is ${JSON.stringify(ours)} instead of ${expected.slice(0, 80)}`]
}

const six = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function textFits(bindings: Bindings, { expected, ours, key }: { expected: string; ours: unknown; key: string }): boolean {
  if (expected === '<int>') return typeof ours === 'number'
  if (typeof ours !== 'string') return false
  if (expected === '<ts>') return six.test(ours)
  if (isPlaceholder(expected)) return (expected.startsWith('<uuid') ? uuid.test(ours) : true) && bindings.matches(expected, ours)
  // Times that were sent come back with six digits; the instant stays.
  if (six.test(ours)) return Date.parse(ours) === Date.parse(expected)
  return !echoed.has(key) || expected === ours
}

function objectFaults(how: How, expected: Values, ours: Values, at: string): string[] {
  return [
    ...Object.entries(expected).flatMap(([key, entry]) => valueFaults(how, entry, ours[key], `${at}.${key}`)),
    ...Object.keys(ours)
      .filter((key) => !(key in expected) && !added.has(key))
      .map((key) => `${at}.${key} is not on the wire of the first version, nor among what was added since`),
  ]
}

/** What our objects hold beyond the first version's. */
const added: ReadonlySet<string> = new Set(
  (
    'connection_state last_seen_at agent_version facts sequence_id attempt error_code resources changes occurred_at drift rollback_of ' +
    'stack_name rev warnings reasons unknown_event_types signing_secret replay_of last_status_code headers details'
  ).split(' '),
)

/** Rows are paired by the ids and names they share; then their order is looked at. */
function listFaults(how: How, expected: readonly unknown[], ours: readonly unknown[], at: string): string[] {
  const { moreRows } = how
  if (moreRows === null) return rowFaults(expected, ours, at)
  const wanted = expected.length + (at === '' ? moreRows : 0)
  const faults = ours.length === wanted ? [] : [`${at} has ${ours.length} rows instead of ${wanted}: ${JSON.stringify(ours).slice(0, 400)}`]
  const places = pair(how.bindings, expected, ours)
  const isInOrder = places.every((place, n) => n === 0 || place > places[n - 1]!)
  return [
    ...faults,
    ...(how.isOrdered && !isInOrder ? [`${at} has another order: ${places.join()}`] : []),
    ...expected.flatMap((row, n) =>
      places[n] === -1
        ? [`${at}[${n}] has no row: ${JSON.stringify(row).slice(0, 200)}`]
        : valueFaults(how, row, ours[places[n]!], `${at}[${n}]`),
    ),
  ]
}

/** Key set of each row, not their number nor what they say. */
function rowFaults(expected: readonly unknown[], ours: readonly unknown[], at: string): string[] {
  const keys = new Set(expected.flatMap((row) => Object.keys(row as object)))
  const always = [...keys].filter((key) => expected.every((row) => key in (row as object)))
  return ours.flatMap((row, n) => [
    ...always.filter((key) => !(key in (row as object))).map((key) => `${at}[${n}].${key} is absent`),
    ...Object.keys(row as object)
      .filter((key) => expected.length > 0 && !keys.has(key) && !added.has(key) && !['ip_address', 'user_agent'].includes(key))
      .map((key) => `${at}[${n}].${key} is new`),
  ])
}

/** The likest two first. */
function pair(bindings: Bindings, expected: readonly unknown[], ours: readonly unknown[]): number[] {
  const places = expected.map(() => -1)
  const taken = new Set<number>()
  const pairs = expected.flatMap((row, n) => ours.map((other, m) => ({ n, m, score: likeness(bindings, row, other) })))
  for (const { n, m } of pairs.filter(({ score }) => score >= 0).toSorted((left, right) => right.score - left.score || left.n - right.n)) {
    if (places[n] !== -1 || taken.has(m)) continue
    places[n] = m
    taken.add(m)
  }
  return places
}

/** 100 for a shared id that is known, 1 for each echoed text; -1 when a known id differs. */
function likeness(bindings: Bindings, expected: unknown, ours: unknown): number {
  if (typeof expected !== 'object' || expected === null || typeof ours !== 'object' || ours === null) return expected === ours ? 1 : 0
  const [left, right] = [expected as Values, ours as Values]
  const id = left['id'] ?? left['agent_id']
  if (isPlaceholder(id) && bindings.get(id) !== undefined) return bindings.get(id) === (right['id'] ?? right['agent_id']) ? 100 : -1
  return Object.entries(left).filter(([key, value]) => echoed.has(key) && same(bindings, value, right[key])).length
}

const echoed: ReadonlySet<string> = new Set(
  'code constraint name label key value event_type agent_id stack_id generator_id deployment_object_id cluster_name yaml_checksum action'.split(
    ' ',
  ),
)
const same = (bindings: Bindings, value: unknown, ours: unknown): boolean => (isPlaceholder(value) ? bindings.get(value) : value) === ours

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'list' : typeof value
}
