// Keeps a PAK as it is until the transaction ends, for actions that derive a session or a sign-in link from it.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as pakLocks from '../store/pak-locks.ts'

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
