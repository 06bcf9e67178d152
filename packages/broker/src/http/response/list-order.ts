// Sort orders of lists, each with its page key: the key before the first row, the key of a row, and the valid form of a received key.
// Pure.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'

export type SortKey = readonly (string | number)[]

export interface ListOrder<Row, Key extends SortKey = SortKey> {
  /** Before every row. */
  readonly first: Key
  readonly keyOf: (row: Row) => Key
  readonly isKey: (value: unknown) => value is Key
}

const lowestId = '00000000-0000-0000-0000-000000000000'
const highestId = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export const byName: ListOrder<{ name: string; id: string }, readonly [name: string, id: string]> = {
  first: ['', lowestId],
  keyOf: ({ name, id }) => [name, id],
  isKey: (value): value is readonly [string, string] => isPair(value) && typeof value[0] === 'string' && isId(value[1]),
}

export const byAgentName: ListOrder<{ name: string; agent_id: string }, readonly [name: string, id: string]> = {
  ...byName,
  keyOf: ({ name, agent_id }) => [name, agent_id],
}

export const byAgentId: ListOrder<{ agent_id: string }, readonly [id: string]> = {
  first: [lowestId],
  keyOf: ({ agent_id }) => [agent_id],
  isKey: (value): value is readonly [string] => Array.isArray(value) && value.length === 1 && isId(value[0]),
}

type TimeKey = readonly [at: string, id: string]
export const newestFirst: ListOrder<{ created_at: string; id: string }, TimeKey> = {
  first: ['infinity', highestId],
  keyOf: ({ created_at, id }) => [created_at, id],
  isKey: isTimeKey,
}

export const oldestFirst: ListOrder<{ created_at: string; id: string }, TimeKey> = { ...newestFirst, first: ['-infinity', lowestId] }

export const newestCompleted: ListOrder<{ completed_at: string; id: string }, TimeKey> = {
  ...newestFirst,
  keyOf: ({ completed_at, id }) => [completed_at, id],
}

export const newestRegistered: ListOrder<{ registered_at: string; id: string }, TimeKey> = {
  ...newestFirst,
  keyOf: ({ registered_at, id }) => [registered_at, id],
}

export const highestSequence: ListOrder<{ sequence_id: number }, readonly [number]> = {
  first: [Number.MAX_SAFE_INTEGER],
  keyOf: ({ sequence_id }) => [sequence_id],
  isKey: (value): value is readonly [number] => Array.isArray(value) && value.length === 1 && Number.isSafeInteger(value[0]),
}

/** System templates first, then by generator. */
export const byTemplateOwner: ListOrder<
  { generator_id: string | null; name: string; version: number },
  readonly [owner: string, name: string, version: number]
> = {
  first: [lowestId, '', 0],
  keyOf: ({ generator_id, name, version }) => [generator_id ?? lowestId, name, version],
  isKey: (value): value is readonly [string, string, number] =>
    Array.isArray(value) && value.length === 3 && isId(value[0]) && typeof value[1] === 'string' && Number.isInteger(value[2]),
}

const isPair = (value: unknown): value is readonly [unknown, unknown] => Array.isArray(value) && value.length === 2
const isId = (value: unknown): value is string => typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)
const timePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

function isTimeKey(value: unknown): value is TimeKey {
  return isPair(value) && typeof value[0] === 'string' && timePattern.test(value[0]) && isId(value[1])
}

// The cursor of a list: the key of the last row, bound to the list and its filters by a digest. It grants nothing, because permission is
// checked for every page, so it needs no secret. A cursor of another list or a modified one is rejected instead of skipping rows. Pure.

/** `list`: everything that distinguishes the list: name, path, filters and caller. */
export function writeListCursor(list: readonly unknown[], key: SortKey): string {
  return Buffer.from(JSON.stringify([computeListDigest(list, key), ...key])).toString('base64url')
}

export function readListCursor<Key extends SortKey>(
  list: readonly unknown[],
  text: string,
  order: Pick<ListOrder<never, Key>, 'isKey'>,
): Key {
  const [digest, ...key] = parsed(text)
  if (!order.isKey(key) || digest !== computeListDigest(list, key))
    throw new ApiError('invalid_cursor', 'the cursor does not belong to this list with these filters: start again without a cursor')
  return key
}

function parsed(text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}

const computeListDigest = (list: readonly unknown[], key: SortKey): string =>
  createHash('sha256')
    .update(JSON.stringify([list, key]))
    .digest('base64url')
    .slice(0, 16)
