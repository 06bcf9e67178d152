// brokkr up without --foreground: starts itself in the background, shows its progress, and returns when all steps are done.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findSupervisor } from '@brokkr/local/supervisor/supervisor.ts'
import { CliError, print } from '../output.ts'
import type { UpFlags } from './flags.ts'
import { adminPakFileOf, describeSignIn } from './sign-in.ts'
import { findStartCommand } from './start-command.ts'

/** The line that the foreground prints last when everything is up. */
const lastLine = /^ {2}(Try {4}| − practice|− practice)/m

export async function detach(flags: UpFlags): Promise<void> {
  const dir = resolve(flags.dir)
  const running = findSupervisor(dir)
  if (running !== undefined) {
    print(
      `Brokkr is running already${running.address === undefined ? '' : ` at ${running.address}`} (process ${running.pid}). Stop it with: brokkr down`,
    )
    if (running.address !== undefined) print(await describeSignIn(running.address, adminPakFileOf(dir)))
    return
  }
  mkdirSync(join(dir, 'logs'), { recursive: true })
  const logFile = join(dir, 'logs', 'up.log')
  const log = openSync(logFile, 'w')
  const { command, args } = findStartCommand('up')
  const child = spawn(command, [...args, '--foreground', '--plain', ...buildArguments(flags)], {
    detached: true,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  const exited = new Promise<number>((done) => child.on('exit', (code) => done(code ?? 1)))
  child.unref()
  await follow(logFile, exited)
  const address = findSupervisor(dir)?.address
  if (address !== undefined) print(await describeSignIn(address, adminPakFileOf(dir)))
}

/** Shows the output of the background process until it is ready or has exited. */
async function follow(logFile: string, exited: Promise<number>): Promise<void> {
  let printedLength = 0
  let code: number | null = null
  void exited.then((exitCode) => (code = exitCode))
  for (;;) {
    const hasEnded = code !== null
    const text = readFileSync(logFile, 'utf8')
    process.stdout.write(text.slice(printedLength))
    printedLength = text.length
    if (lastLine.test(text)) return
    if (hasEnded)
      throw new CliError('Brokkr did not start', {
        where: logFile,
        next: 'correct the problem above, then run brokkr up again',
        exitCode: 6,
      })
    await sleep(200)
  }
}

function buildArguments(flags: UpFlags): string[] {
  return [
    '--dir',
    flags.dir,
    '--port',
    flags.port,
    '--clusters',
    flags.clusters,
    ...(flags.lite === true ? ['--lite'] : []),
    ...(flags.kubeconfig === undefined ? [] : ['--kubeconfig', flags.kubeconfig]),
    ...(flags.databaseUrl === undefined ? [] : ['--database-url', flags.databaseUrl]),
  ]
}
