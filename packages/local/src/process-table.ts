// Tells processes apart by pid and start time together: a pid alone is handed out again after a while, and a signal sent on the
// strength of an old note would hit a stranger. Zombies count as gone.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export type RecordedProcess = { pid: number; startTime: string }

/** True while the process that was recorded lives; false when its pid is free, a zombie, or belongs to a later process. */
export function isSameProcess(pid: number, startTime: string): boolean {
  return startTime !== '' && startTimeOf(pid) === startTime
}

/** Opaque text, equal for one life of one process: clock ticks and boot on Linux, the start date elsewhere; undefined when gone. */
export function startTimeOf(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  return process.platform === 'linux' ? fromProc(pid) : fromPs(pid)
}

/** Sends the signal only to the process that was recorded; false when it is gone. */
export function killRecorded(recorded: RecordedProcess, signal: NodeJS.Signals): boolean {
  if (!isSameProcess(recorded.pid, recorded.startTime)) return false
  try {
    return process.kill(recorded.pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** State and start of a line of /proc/<pid>/stat. The second field is the program's name, which may hold spaces and brackets. */
export function parseStat(stat: string): { state: string; ticks: string } | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, ticks] = [fields[0], fields[19]]
  return state === undefined || state === '' || ticks === undefined ? undefined : { state, ticks }
}

function fromProc(pid: number): string | undefined {
  try {
    const seen = parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    if (seen === undefined || seen.state === 'Z' || seen.state === 'X') return undefined
    // Ticks count from boot, so a note from before a reboot could match by chance without the boot's own id.
    return `${seen.ticks}@${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8)}`
  } catch {
    return undefined
  }
}

function fromPs(pid: number): string | undefined {
  try {
    const env = { PATH: '/bin:/usr/bin', LC_ALL: 'C', TZ: 'UTC' }
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { env, encoding: 'utf8', timeout: 10_000 }).trim()
    return line === '' || line.startsWith('Z') ? undefined : line.slice(line.indexOf(' ')).trim()
  } catch {
    return undefined
  }
}
