// Cold backup of a private PostgreSQL: copies its files and restores them. Commits after the backup are lost, as after any restore.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { PrivatePostgres } from './postgres.ts'

export type Backup = {
  /** The server runs on the old files afterwards. */
  readonly restore: () => Promise<void>
}

const run = promisify(execFile)

/** The server is stopped meanwhile, and runs again afterwards. */
export async function coldBackup(server: PrivatePostgres): Promise<Backup> {
  const copy = `${server.dataDir}.backup`
  // With owner and mode, which the server insists on.
  const copied = (from: string, to: string) => run('cp', ['-a', '--', from, to])
  await server.kill('SIGINT')
  await copied(server.dataDir, copy)
  await server.restart()
  return {
    restore: async () => {
      await server.kill('SIGINT')
      await run('rm', ['-rf', '--', server.dataDir])
      await copied(copy, server.dataDir)
      await server.restart()
    },
  }
}
