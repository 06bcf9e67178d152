// Identifies processes by pid and start time, because the system reuses pids and a signal could hit another process. Zombies count as
// ended.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export type RecordedProcess = { pid: number; startTime: string }

/** True while the recorded process runs; false if its pid is free, a zombie, or belongs to a later process. */
export function isSameProcess(pid: number, startTime: string): boolean {
  return startTime !== '' && readStartTime(pid) === startTime
}

/** Opaque text that identifies one process: clock ticks and boot id on Linux, the start date elsewhere; undefined after its end. */
export function readStartTime(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  return process.platform === 'linux' ? readFromProc(pid) : readFromPs(pid)
}

/** Sends the signal only to the recorded process; false if it has ended. */
export function killRecorded(recorded: RecordedProcess, signal: NodeJS.Signals): boolean {
  if (!isSameProcess(recorded.pid, recorded.startTime)) return false
  try {
    return process.kill(recorded.pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Parses state and start time of /proc/<pid>/stat. The second field is the program name, which may contain spaces and parentheses. */
export function parseStat(stat: string): { state: string; ticks: string } | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, ticks] = [fields[0], fields[19]]
  return state === undefined || state === '' || ticks === undefined ? undefined : { state, ticks }
}

function readFromProc(pid: number): string | undefined {
  try {
    const stat = parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    if (stat === undefined || stat.state === 'Z' || stat.state === 'X') return undefined
    // Ticks count from boot, so a record from before a reboot could match by chance without the boot id.
    return `${stat.ticks}@${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8)}`
  } catch {
    return undefined
  }
}

function readFromPs(pid: number): string | undefined {
  try {
    const env = { PATH: '/bin:/usr/bin', LC_ALL: 'C', TZ: 'UTC' }
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { env, encoding: 'utf8', timeout: 10_000 }).trim()
    return line === '' || line.startsWith('Z') ? undefined : line.slice(line.indexOf(' ')).trim()
  } catch {
    return undefined
  }
}
