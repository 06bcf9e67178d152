// Finds values in the body of a request and puts others in their place.
import type { Random } from './fuzz-random.fixture.ts'
import { type FuzzRequest, yaml } from './fuzz-requests.fixture.ts'

export const isText = (value: unknown): boolean => typeof value === 'string' && !isId(value) && !isTime(value)
export const isId = (value: unknown): boolean => typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)
export const isTime = (value: unknown): boolean => typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value)
export const isNumber = (value: unknown): boolean => typeof value === 'number'
export const isManifest = (value: unknown): boolean => value === yaml

/** Replaces one value of the body that fits; `undefined` leaves it out. */
export function replaceIn(random: Random, request: FuzzRequest, fits: (value: unknown) => boolean, make: () => unknown): void {
  const places = placesOf(request.body, fits)
  if (places.length > 0) request.body = withValue(request.body, random.pick(places), make())
}

type Place = readonly (string | number)[]

function placesOf(value: unknown, fits: (value: unknown) => boolean, at: Place = []): Place[] {
  const own = value !== undefined && fits(value) ? [at] : []
  if (typeof value !== 'object' || value === null) return own
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, entry]) => placesOf(entry, fits, [...at, Array.isArray(value) ? Number(key) : key])),
  ]
}

function withValue(body: unknown, [key, ...rest]: Place, value: unknown): unknown {
  if (key === undefined) return value
  if (Array.isArray(body)) return body.map((entry: unknown, n) => (n === key ? withValue(entry, rest, value) : entry))
  return { ...(body as object), [key]: withValue((body as Record<string, unknown>)[key], rest, value) }
}

export function setIn(request: FuzzRequest, key: string, value: unknown): void {
  if (typeof request.body === 'object' && request.body !== null && !Array.isArray(request.body))
    request.body = { ...request.body, [key]: value }
}

export function setRaw(request: FuzzRequest, change: (text: string) => string): void {
  request.raw = Buffer.from(change(JSON.stringify(request.body ?? {})))
}
