// brokkr up: the whole product on this machine, step by step. The broker is usable before the practice cluster is; a step
// that cannot be had on this machine (no way to get Kubernetes) is marked skipped and everything else works.
import { resolve } from 'node:path'
import { createSupervisor, type Supervisor } from '@brokkr/local/supervisor.ts'
import { createLog } from '@brokkr/runtime/log.ts'
import { saveContext } from '../context.ts'
import type { UpFlags } from '../main.ts'
import { CliError, print } from '../output.ts'
import { startAgentProgram } from './agent-program.ts'
import { type BrokerAt, startBrokerProgram } from './broker-program.ts'
import { startDatabase } from './database.ts'
import { ensureDemo } from './demo.ts'
import { detach } from './detach.ts'
import { ensureKeys } from './keys.ts'
import { startPractice } from './practice.ts'
import { createProgress, type Progress } from './progress.ts'

export async function up(flags: UpFlags): Promise<void> {
  const port = Number(flags.port)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new CliError(`--port ${flags.port} is no port`, { next: '--port 3000, or --port 0 for a free one', exitCode: 2 })
  }
  if (flags.foreground === true) await upInForeground(flags)
  else await detach(flags)
}

export interface UpContext {
  readonly dir: string
  readonly flags: UpFlags
  readonly supervisor: Supervisor
  readonly progress: Progress
  readonly signal: AbortSignal
}

async function upInForeground(flags: UpFlags): Promise<void> {
  const dir = resolve(flags.dir)
  const opened = createSupervisor({
    dir,
    log: createLog({ name: 'brokkr-up', level: 'warn', format: 'pretty', destination: process.stderr }),
  })
  if ('alreadyRunning' in opened) {
    const { address, pid } = opened.alreadyRunning
    print(`Brokkr is running already${address === undefined ? '' : ` at ${address}`} (process ${pid}). Stop it with: brokkr down`)
    return
  }
  const stopping = new AbortController()
  const stopped = untilSignal(stopping)
  const context: UpContext = {
    dir,
    flags,
    supervisor: opened.supervisor,
    progress: createProgress({ plain: flags.plain === true, signal: stopping.signal }),
    signal: stopping.signal,
  }
  try {
    await opened.supervisor.sweep({ keep: ['postgres'] })
    await Promise.race([startEverything(context), stopped])
    await stopped
  } finally {
    context.progress.stop()
    await opened.supervisor.close()
    print('stopped; data are kept')
  }
}

async function startEverything(context: UpContext): Promise<void> {
  const { dir, progress, supervisor } = context
  const keys = await ensureKeys(dir)
  const databaseUrl = await progress.step('postgres', () => startDatabase(context))
  const broker = await progress.step('broker', () => startBrokerProgram(context, { databaseUrl, keys }))
  supervisor.announce(broker.url)
  await saveContext({ broker: broker.url, pak_file: keys.adminPakFile })
  tellWhereItIs(broker, keys.adminPakFile)
  if (context.flags.lite === true) progress.skip('practice', 'left out by --lite')
  else await startCluster(context, broker)
}

async function startCluster(context: UpContext, broker: BrokerAt): Promise<void> {
  const { progress } = context
  const practice = await progress.step('practice', (say) => startPractice(context, say))
  if (practice === null) return
  const agent = await progress.step('agent', () => startAgentProgram(context, broker, practice))
  await progress.step('demo', () => ensureDemo(context, broker, agent))
  await practice.finish((say) => progress.step('nodes', say))
  print('  Try    brokkr status · brokkr get stacks · brokkr describe stack hello · brokkr down')
}

function tellWhereItIs(broker: BrokerAt, adminPakFile: string): void {
  print(`  Open   ${broker.url}        sign in with the key in ${adminPakFile}`)
}

/** One Ctrl-C comes more than once: from the terminal, to all of its group, and passed on by whoever started us. */
const sameSignalMs = 1000

/** The first signal stops everything in order; a second one ends this process, and its children with it. */
function untilSignal(stopping: AbortController): Promise<void> {
  let firstMs: number | undefined
  return new Promise((resolveStopped) => {
    const onSignal = () => {
      if (firstMs !== undefined && performance.now() - firstMs > sameSignalMs) process.exit(1)
      firstMs ??= performance.now()
      stopping.abort(new CliError('stopped'))
      resolveStopped()
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
  })
}
