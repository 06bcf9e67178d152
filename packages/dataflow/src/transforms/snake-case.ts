// snakeCase: converts keys to snake case; values stay.
import { renameKeys } from './rename-keys.ts'
import type { Transform } from './transform.ts'

export const snakeCase: Transform<'snakeCase'> = {
  type: 'snakeCase',
  build: ({ deep }) => renameKeys(toSnakeCase, deep),
}

/** Before an upper-case letter after a lower-case one or a digit, and before the last of several upper-case letters if a lower-case one
 *  follows. Upper-case letters are those with a lower-case form, so that the conversion is idempotent. */
const boundary = /(?<=[\p{Ll}\p{Nd}])(?=\p{CWL})|(?<=\p{CWL})(?=\p{CWL}\p{Ll})/gu

export const toSnakeCase = (key: string): string => key.replace(boundary, '_').toLowerCase()
