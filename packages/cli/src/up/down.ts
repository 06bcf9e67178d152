// brokkr down: stops the processes that `brokkr up` started, identified by recorded pid and start time. Keeps data unless --purge
// is given.
import { rm } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { removePostgres } from '@brokkr/local/postgres/remove-postgres.ts'
import { isSameProcess, killRecorded } from '@brokkr/local/supervisor/process-table.ts'
import { findSupervisor } from '@brokkr/local/supervisor/supervisor.ts'
import { readSupervisorState, stopRecorded } from '@brokkr/local/supervisor/supervisor-state.ts'
import { contextFile, readContexts, writeContexts } from '../context.ts'
import { CliError, print } from '../output.ts'

const graceMs = 40_000

export async function down(options: { dir: string; purge?: boolean }): Promise<void> {
  const dir = resolve(options.dir)
  const running = findSupervisor(dir)
  if (running !== undefined) await stopSupervisor(running)
  for (const program of readSupervisorState(dir).toReversed()) await stopRecorded(program)
  if (options.purge === true) {
    removePostgres(join(dir, 'pg'))
    await rm(dir, { recursive: true, force: true })
    await forgetContexts(dir)
  }
  print(
    `${running === undefined ? 'nothing was running' : 'stopped'}; ${options.purge === true ? 'data are removed' : `data are kept in ${options.dir}`}`,
  )
}

/** Removes saved contexts whose PAK was in the folder: they can no longer be used. */
async function forgetContexts(dir: string): Promise<void> {
  const { current, contexts } = await readContexts()
  const kept = Object.fromEntries(Object.entries(contexts).filter(([, { pak_file }]) => !resolve(pak_file).startsWith(`${dir}${sep}`)))
  if (Object.keys(kept).length === Object.keys(contexts).length) return
  if (Object.keys(kept).length === 0) await rm(contextFile(), { force: true })
  else await writeContexts({ current: current !== null && current in kept ? current : null, contexts: kept })
}

async function stopSupervisor({ pid, startTime }: { pid: number; startTime: string }): Promise<void> {
  killRecorded({ pid, startTime }, 'SIGTERM')
  const endMs = Date.now() + graceMs
  while (isSameProcess(pid, startTime)) {
    if (Date.now() > endMs) throw new CliError(`process ${pid} does not end`, { next: `kill -9 ${pid}, then brokkr down again` })
    await sleep(100)
  }
}
