// The rows a broker needs at its first start: the system generator, and one admin key. No key is built in: either its hash
// was configured, or one is minted into a file that only its owner can read.
import { constants } from 'node:fs'
import { lstat, mkdir, open, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from './audit.ts'
import { systemActor } from './domain/actor.ts'
import { uuid7 } from './domain/uuid7.ts'
import * as adminRole from './store/admin-role.ts'
import * as generators from './store/generators.ts'
import type { Sql } from './store/sql.ts'

/** Hashes of keys that were published as samples: they open nothing. */
const sampleHashes: ReadonlySet<string> = new Set(['4c697273df3d764cba950bb5c04368097685f09259f5bd880d892cf1ff9f4cdd'])

export interface BootstrapSettings {
  readonly pak_hash: string | null
  readonly admin_pak_file: string
  readonly allow_sample_pak: boolean
}
export interface Bootstrapped {
  /** Where the first admin key was written, if one was minted now. */
  readonly adminPakFile: string | null
}

export async function bootstrap(deps: { sql: Sql }, settings: BootstrapSettings): Promise<Bootstrapped> {
  if (settings.pak_hash !== null && sampleHashes.has(settings.pak_hash) && !settings.allow_sample_pak) {
    throw new Error('broker.pak_hash is the hash of a published sample key, which everybody knows: make a key of your own')
  }
  return deps.sql.begin(async (sql) => {
    // Several processes may start at once; the first one makes the rows, the others find them.
    await adminRole.lockBootstrap(sql, {})
    await ensureSystemGenerator(sql)
    const { live } = await adminRole.countLive(sql, {})
    return { adminPakFile: live > 0 ? null : await firstAdminKey(sql, settings) }
  })
}

async function ensureSystemGenerator(sql: Sql): Promise<void> {
  if ((await generators.system(sql, {})) !== null) return
  const none = { pak_hash: null, pak_short: null }
  await generators.insert(sql, { id: uuid7(), name: '__system__', description: 'Stacks of the platform itself', is_system: true, ...none })
  await generators.insert(sql, { id: uuid7(), name: 'admin-generator', description: 'Linked to Admin PAK', is_system: false, ...none })
}

async function firstAdminKey(sql: Sql, settings: BootstrapSettings): Promise<string | null> {
  const made = settings.pak_hash === null ? await makePak() : null
  const id = uuid7()
  await adminRole.insert(sql, {
    id,
    name: made === null ? 'configured' : 'first',
    pak_hash: made?.hash ?? settings.pak_hash!,
    pak_short: made?.short ?? null,
  })
  await recordDeed(sql, { by: systemActor, action: 'pak.created', on: { type: 'pak', id } })
  if (made === null) return null
  // Written before the commit: a key that nobody can read would lock everybody out.
  await writeKeyFile(settings.admin_pak_file, made.pak)
  return settings.admin_pak_file
}

/** Directory 0700, file 0600, never through a link, never over something that is there. */
async function writeKeyFile(path: string, pak: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const { mode } = await stat(dirname(path))
  if ((mode & 0o077) !== 0)
    throw new Error(
      `${dirname(path)} is open to others: the first admin key is not written there; make it 0700 or set broker.admin_pak_file`,
    )
  await removeEarlierFile(path)
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  try {
    await file.writeFile(`${pak}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A key of an earlier database goes; anything but a plain file of our own was planted, and stops the start. */
async function removeEarlierFile(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null)
  if (found === null) return
  if (!found.isFile() || found.uid !== process.getuid?.())
    throw new Error(`${path} is not a plain file of this user: somebody else put it there; remove it or set broker.admin_pak_file`)
  await rm(path)
}
