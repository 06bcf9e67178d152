// snakeCase: keys to snake case; values stay.
import { renameKeys } from '../rename-keys.ts'
import type { Transform } from '../transform.ts'

export const snakeCase: Transform<'snakeCase'> = {
  type: 'snakeCase',
  build: ({ deep }) => renameKeys(toSnakeCase, deep),
}

/** Before an upper letter that follows a lower one or a digit, and before the last of a run of uppers that a lower one follows. Upper is
 *  what has a lower form: others (of mathematics, say) would stay, and get another underscore each time. */
const boundary = /(?<=[\p{Ll}\p{Nd}])(?=\p{CWL})|(?<=\p{CWL})(?=\p{CWL}\p{Ll})/gu

export const toSnakeCase = (key: string): string => key.replace(boundary, '_').toLowerCase()
