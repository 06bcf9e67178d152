// Locks the PAK that a session or sign-in link depends on. A rotation deletes both in its transaction; without the lock one that is inserted
// meanwhile would stay.
import { count, type Slots } from '@brokkr/postgres'

/** `pak_hash` null: the caller did not send the PAK. */
type Pak = Slots<{ id: string; pak_hash: string | null }>
const isSame = (p: Pak): string => `(${p.pak_hash}::text is null or pak_hash = ${p.pak_hash})`

/** Until the transaction ends a rotation waits, and then also ends what was inserted. 0 if the PAK is not live or was replaced. */
export const holdAdmin = count(
  'pak_locks.holdAdmin',
  (p: Pak) => `
  select from admin_role where id = ${p.id}::uuid and deleted_at is null and (expires_at is null or expires_at > now()) and ${isSame(p)} for share`,
)
export const holdGenerator = count(
  'pak_locks.holdGenerator',
  (p: Pak) => `select from generators where id = ${p.id}::uuid and deleted_at is null and ${isSame(p)} for share`,
)
