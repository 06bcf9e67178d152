// Deletes all files of a stopped server: its folder, its relocated data, and its socket folder.
import { existsSync, realpathSync, rmdirSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { preparePostgresFolders, relocatedHome } from './folders.ts'
import { findServer } from './postmaster-record.ts'
import { unprivilegedUser } from './unprivileged.ts'

export function removePostgres(dir: string, port = 5432): void {
  if (!existsSync(dir)) return
  const folders = preparePostgresFolders(dir, port)
  const running = findServer(folders)
  if (running !== undefined)
    throw new Error(`PostgreSQL still runs on ${folders.dataDir} (pid ${running.pid}); stop it before its data is deleted`)
  const user = unprivilegedUser()
  const moved = user === undefined ? undefined : relocatedHome(realpathSync(dir), user)
  for (const folder of [folders.socketDir, folders.home, dir]) rmSync(folder, { recursive: true, force: true })
  if (moved !== undefined) removeIfEmpty(dirname(moved))
}

/** Other servers and copied programs may share it. */
function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
