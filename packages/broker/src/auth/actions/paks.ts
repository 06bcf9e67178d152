// Checks of PAKs inside transactions: form, lock and uniqueness.
import { pakHashPattern, shortTokenPattern } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as credentials from '../store/credentials.ts'
import * as pakLocks from '../store/pak-locks.ts'

// A PAK that an agent created itself: its short token and the hash of its long token.

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

// Keeps a PAK as it is until the transaction ends, for actions that derive a session or a sign-in link from it.

export interface PakIdentity {
  readonly kind: string
  readonly id: string
}

/** Whether the PAK is live and, with a hash, not replaced. Call it before other rows are locked: a rotation locks the PAK first. */
export async function holdPak(sql: Sql, { kind, id }: PakIdentity, pakHash: string | null): Promise<boolean> {
  const hold = kind === 'admin' ? pakLocks.holdAdmin : pakLocks.holdGenerator
  return (await hold(sql, { id, pak_hash: pakHash })) > 0
}

export async function requirePak(sql: Sql, identity: PakIdentity, pakHash: string | null): Promise<void> {
  if (!(await holdPak(sql, identity, pakHash))) throw new ApiError('unauthorized', 'the PAK was replaced, was revoked or has expired')
}

// PAK hashes must be unique. The database enforces it among agents; hashes of admins and generators are checked here.

/** `agentId` is the agent that may already have this hash. */
export async function requireUniquePakHash(sql: Sql, hash: string, agentId: string | null): Promise<void> {
  const credential = await credentials.findByHash(sql, { hash })
  if (credential === null || credential.id === agentId) return
  throw new ApiError('unique_violation', 'another PAK has this hash: create a new PAK', { details: { constraint: 'unique_agent_pak' } })
}
