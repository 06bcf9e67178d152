// brokkr up without --foreground: starts itself in the background, shows its progress, and returns when all is green.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findSupervisor } from '@brokkr/local/supervisor.ts'
import type { UpFlags } from '../main.ts'
import { CliError, print } from '../output.ts'
import { programOf } from './program-of.ts'

/** The line that the foreground prints last when everything is up. */
const lastLine = /^ {2}(Try {4}| − practice|− practice)/m

export async function detach(flags: UpFlags): Promise<void> {
  const dir = resolve(flags.dir)
  const running = findSupervisor(dir)
  if (running !== undefined) {
    print(
      `Brokkr is running already${running.address === undefined ? '' : ` at ${running.address}`} (process ${running.pid}). Stop it with: brokkr down`,
    )
    return
  }
  mkdirSync(join(dir, 'logs'), { recursive: true })
  const logFile = join(dir, 'logs', 'up.log')
  const log = openSync(logFile, 'w')
  const { command, args } = programOf('up')
  const child = spawn(command, [...args, '--foreground', '--plain', ...argumentsOf(flags)], { detached: true, stdio: ['ignore', log, log] })
  closeSync(log)
  const exited = new Promise<number>((done) => child.on('exit', (code) => done(code ?? 1)))
  child.unref()
  await follow(logFile, exited)
}

/** Shows what the background wrote, until it is up or has ended. */
async function follow(logFile: string, exited: Promise<number>): Promise<void> {
  let shown = 0
  let code: number | null = null
  void exited.then((ended) => (code = ended))
  for (;;) {
    const hasEnded = code !== null
    const text = readFileSync(logFile, 'utf8')
    process.stdout.write(text.slice(shown))
    shown = text.length
    if (lastLine.test(text)) return
    if (hasEnded)
      throw new CliError('Brokkr did not come up', {
        where: logFile,
        next: 'look at the lines above, mend it, then brokkr up',
        exitCode: 6,
      })
    await sleep(200)
  }
}

function argumentsOf(flags: UpFlags): string[] {
  return [
    '--dir',
    flags.dir,
    '--port',
    flags.port,
    ...(flags.lite === true ? ['--lite'] : []),
    ...(flags.kubeconfig === undefined ? [] : ['--kubeconfig', flags.kubeconfig]),
    ...(flags.databaseUrl === undefined ? [] : ['--database-url', flags.databaseUrl]),
  ]
}
