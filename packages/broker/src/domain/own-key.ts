// What an agent tells of a key it made itself: the short part, and the hash of the long one.
import { ApiError } from '@brokkr/contract/error.ts'
import { pakHashPattern, shortTokenPattern } from '@brokkr/contract/pak.ts'

export interface OwnKey {
  readonly short: string
  readonly hash: string
}

export function requireOwnKey({ short_token: short, pak_hash: hash }: { short_token: string; pak_hash: string }): OwnKey {
  const wrong = !shortTokenPattern.test(short)
    ? { path: 'short_token', message: 'is BR and six base58 characters' }
    : pakHashPattern.test(hash)
      ? null
      : { path: 'pak_hash', message: 'is the SHA-256 of the long part, in 64 lower-case hex digits' }
  if (wrong !== null) throw new ApiError('validation_failed', `${wrong.path} ${wrong.message}`, { details: { errors: [wrong] } })
  return { short, hash }
}
