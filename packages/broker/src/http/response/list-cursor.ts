// The cursor of a list: the key of the last row, bound to the list and its filters by a digest. It grants nothing, because permission is
// checked for every page, so it needs no secret. A cursor of another list or a modified one is rejected instead of skipping rows. Pure.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { ListOrder, SortKey } from './list-order.ts'

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
