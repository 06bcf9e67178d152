// brokkr up: starts the whole product on this machine step by step. The broker is usable before the local cluster is ready. A step
// that is not possible on this machine is skipped; everything else works.
import { resolve } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { createSupervisor, type Supervisor } from '@brokkr/local/supervisor/supervisor.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { saveContext } from '../context.ts'
import { CliError, print } from '../output.ts'
import { startAgentProgram } from './agent-program.ts'
import { type LocalBroker, startBrokerProgram } from './broker-program.ts'
import { startDatabase } from './database.ts'
import { ensureDemo } from './demo.ts'
import { startDemoExtras } from './demo-extras.ts'
import { ensureDemoPipeline, waitForPromotion } from './demo-pipeline.ts'
import { detach } from './detach.ts'
import type { UpFlags } from './flags.ts'
import { startDemoFlow } from './flows/demo-flow.ts'
import { startLocalCluster } from './local-cluster.ts'
import { ensurePaks, type Paks } from './paks.ts'
import { type PipelinesAt, startPipelinesProgram } from './pipelines-program.ts'
import { createProgress, type Progress } from './progress.ts'
import { adminPakFileOf, describeSignIn } from './sign-in.ts'

export async function up(flags: UpFlags): Promise<void> {
  const port = Number(flags.port)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new CliError(`--port ${flags.port} is not a port`, { next: '--port 3000, or --port 0 for a free one', exitCode: 2 })
  }
  if (!/^[1-5]$/.test(flags.clusters) || (flags.clusters !== '1' && flags.kubeconfig !== undefined))
    throw new CliError(`--clusters ${flags.clusters} cannot be started`, {
      next: '--clusters 1 to 5, without --kubeconfig',
      exitCode: 2,
    })
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
    if (address !== undefined) print(await describeSignIn(address, adminPakFileOf(dir)))
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
  const keys = await ensurePaks(dir)
  const databaseUrl = await progress.step('postgres', () => startDatabase(context))
  const hasCluster = context.flags.lite !== true
  const pipelines = hasCluster && context.flags.kubeconfig === undefined ? await choosePipelines(keys) : null
  const broker = await progress.step('broker', () => startBrokerProgram(context, { databaseUrl, keys, pipelines }))
  supervisor.announce(broker.url)
  await saveContext({ broker: broker.url, pak_file: keys.adminPakFile })
  // A link is a credential, so it is not written into the log of a background process; that prints it when everything is up.
  print(process.stdout.isTTY ? await describeSignIn(broker.url, keys.adminPakFile) : `  Open   ${broker.url}`)
  if (hasCluster) await startCluster(context, { broker, keys, pipelines, databaseUrl })
  else progress.skip('practice', 'left out by --lite')
}

async function choosePipelines({ pipelinesKeyFile }: Paks): Promise<PipelinesAt> {
  const port = await freePort()
  return { port, url: `http://127.0.0.1:${port}`, keyFile: pipelinesKeyFile }
}

async function startCluster(
  context: UpContext,
  at: { broker: LocalBroker; keys: Paks; pipelines: PipelinesAt | null; databaseUrl: string },
): Promise<void> {
  const { progress } = context
  const { broker, pipelines } = at
  const practice = await progress.step('practice', (say) => startLocalCluster(context, say))
  if (practice === null) return
  await saveContext({ broker: broker.url, pak_file: at.keys.adminPakFile, kubeconfig: practice.kubeconfigPath })
  const agent = await progress.step('agent', () => startAgentProgram(context, broker, practice))
  if (pipelines === null) progress.skip('pipelines', 'not installed in a cluster of yours; run: brokkr pipelines --install-crds')
  else await progress.step('pipelines', () => startPipelinesProgram(context, { broker, practice, pipelines }))
  await progress.step('demo', () => ensureDemo(context, broker, agent))
  if (pipelines !== null) await ensureDemoPipeline(context, practice, agent)
  await progress.step('extras', () => startDemoExtras(context, broker, agent))
  await practice.finish((say) => progress.step('nodes', say))
  await startFurtherClusters(context, broker)
  if (pipelines !== null) await progress.step('promotion', () => waitForPromotion(context, broker))
  if (pipelines !== null) await progress.step('flow', () => startDemoFlow(context, practice, at.databaseUrl))
  print(
    `  Try    brokkr status · brokkr describe stack hello · ${pipelines === null ? '' : 'brokkr approve hello/prod · brokkr flows list · '}brokkr down`,
  )
}

/** Clusters beside the first, each with an agent of its own that the demo stacks reach by label. */
async function startFurtherClusters(context: UpContext, broker: LocalBroker): Promise<void> {
  for (let number = 2; number <= Number(context.flags.clusters); number += 1) {
    const name = `practice-${number}`
    const cluster = await context.progress.step(name, (say) => startLocalCluster(context, say, name))
    if (cluster === null) return
    await context.progress.step(`agent-${number}`, () => startAgentProgram(context, broker, cluster))
    await cluster.finish((work) => context.progress.step(`nodes-${number}`, work))
  }
}

/** One Ctrl-C can arrive more than once: from the terminal to the process group, and forwarded by the parent process. */
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
