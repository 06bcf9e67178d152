// Data of a server that were made once and are copied for each test: a tenth of the time that initdb needs.
import { chmodSync, chownSync, cpSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { startPostgres } from '../postgres/postgres.ts'

/** Makes the data in `dir` and leaves no server running. */
export async function makePostgresSeed(dir: string): Promise<void> {
  const server = await startPostgres({ dir, fsync: false, npmOnly: true })
  await server.stop()
}

/** A copy keeps neither owner nor, for the top folder, mode; the server insists on both. */
export function copyPostgresSeed(seed: string, dir: string): string {
  for (const name of ['data', 'password']) cpSync(join(seed, name), join(dir, name), { recursive: true })
  const { uid, gid } = lstatSync(join(seed, 'data'))
  const copied = readdirSync(join(dir, 'data'), { recursive: true, withFileTypes: true }).map((entry) => join(entry.parentPath, entry.name))
  for (const path of [join(dir, 'data'), ...copied]) chownSync(path, uid, gid)
  chmodSync(join(dir, 'data'), 0o700)
  return dir
}
