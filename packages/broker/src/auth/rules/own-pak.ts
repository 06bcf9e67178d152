// A PAK that an agent created itself: its short token and the hash of its long token.

import { pakHashPattern, shortTokenPattern } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'

export interface OwnPak {
  readonly short: string
  readonly hash: string
}

export function requireOwnPak({ short_token: short, pak_hash: hash }: { short_token: string; pak_hash: string }): OwnPak {
  const problem = !shortTokenPattern.test(short)
    ? { path: 'short_token', message: 'must be BR followed by six base58 characters' }
    : pakHashPattern.test(hash)
      ? null
      : { path: 'pak_hash', message: 'must be the SHA-256 of the long token in 64 lower-case hex digits' }
  if (problem !== null) throw new ApiError('validation_failed', `${problem.path} ${problem.message}`, { details: { errors: [problem] } })
  return { short, hash }
}
