// The cursor of a list: the key of the last row seen, tied to the list and its filters by a digest over both. It opens nothing
// (what it may show is asked anew with every page), so it needs no secret; a cursor of another list, or one that was changed, is
// refused instead of skipping rows. Pure.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/error.ts'
import type { ListOrder, SortKey } from './list-order.ts'

/** `list` is whatever makes this list another one: its name, path, filters and whose view it is. */
export function writeListCursor(list: readonly unknown[], key: SortKey): string {
  return Buffer.from(JSON.stringify([digestOf(list, key), ...key])).toString('base64url')
}

export function readListCursor<Key extends SortKey>(
  list: readonly unknown[],
  text: string,
  order: Pick<ListOrder<never, Key>, 'isKey'>,
): Key {
  const [digest, ...key] = parsed(text)
  if (!order.isKey(key) || digest !== digestOf(list, key))
    throw new ApiError('invalid_cursor', 'the cursor is not one of this list with these filters: start again without it')
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

const digestOf = (list: readonly unknown[], key: SortKey): string =>
  createHash('sha256')
    .update(JSON.stringify([list, key]))
    .digest('base64url')
    .slice(0, 16)
