// One pod of a flow as a local process: started from the pod's container and Secret, restarted when it fails, and reported in the pod's
// status as a kubelet would report it.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fields, hasReason, type Kube, type KubeObject, numberAt, refOf, rowsAt, textAt, timeText } from '@brokkr/kube'
import { type Exit, type OwnedProcess, spawnOwned } from '@brokkr/local/supervisor/spawn-owned.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { RunnerOptions } from './runner.ts'

export interface PodProcess {
  /** Resolves when the process has ended and is not started again. */
  readonly ended: Promise<void>
  stop(): Promise<void>
}

const pollMs = 500
const restartMs = { first: 1_000, max: 60_000 }
const graceMs = 60_000
const addressAnnotation = 'dataflow.dataflow.io/progress-address'
const tapAnnotation = 'dataflow.dataflow.io/tap-address'

export async function startPodProcess(
  deps: { readonly kube: Kube; readonly log: Log },
  pod: KubeObject,
  options: RunnerOptions,
): Promise<PodProcess> {
  const secret = await readSecret(deps.kube, pod)
  const command = toCommand(pod, secret, options)
  await mkdir(options.folder, { recursive: true, mode: 0o700 })
  await writeFile(join(options.folder, 'spec.json'), decodeKey(secret, 'spec.json'), { mode: 0o600 })
  const stopping = new AbortController()
  let current: OwnedProcess | undefined
  const ended = run()
  return {
    ended,
    stop: async () => {
      stopping.abort()
      await current?.stop(graceMs)
      await ended
      await rm(options.folder, { recursive: true, force: true })
    },
  }

  async function run(): Promise<void> {
    const isJob = textAt(pod, 'spec', 'restartPolicy') === 'Never'
    for (let restarts = 0; !stopping.signal.aborted; restarts += 1) {
      current = spawnOwned(command)
      const following = follow(deps, { pod, process: current, restarts, signal: stopping.signal })
      const exit = await current.exited
      await following
      if (stopping.signal.aborted) return
      await report(isJob ? await toEnd(exit, options.folder) : toWaiting(exit, restarts))
      if (isJob) return
      await sleep(Math.min(restartMs.first * 2 ** restarts, restartMs.max), undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }

  /** An API server that does not answer ends neither the process of a pod nor `brokkr up`. */
  async function report(status: object): Promise<void> {
    await patchStatus(deps.kube, pod, status).catch((error: unknown) =>
      deps.log.warn('status of a pod not written', { pod: pod.metadata.name, error: errorText(error) }),
    )
  }
}

async function readSecret(kube: Kube, pod: KubeObject): Promise<KubeObject> {
  const volume = rowsAt(pod, 'spec', 'volumes').find((row) => row['name'] === 'spec')
  const name = textAt(volume, 'secret', 'secretName') ?? ''
  return kube.get({ apiVersion: 'v1', kind: 'Secret', namespace: pod.metadata.namespace, name })
}

const decodeKey = (secret: KubeObject, key: string): Buffer => Buffer.from(textAt(secret, 'data', key) ?? '', 'base64')

/** The value of a variable; from the flow's own Secret if it refers to it. */
function findValue(variable: Fields, secret: KubeObject): string | undefined {
  const [name, key] = ['name', 'key'].map((field) => textAt(variable, 'valueFrom', 'secretKeyRef', field))
  return name === secret.metadata.name && key !== undefined ? decodeKey(secret, key).toString() : textAt(variable, 'value')
}

function toCommand(pod: KubeObject, secret: KubeObject, { folder, kubeconfigPath, program }: RunnerOptions) {
  const [container] = rowsAt(pod, 'spec', 'containers')
  const texts = (key: string): string[] => ((container?.[key] ?? []) as unknown[]).map(String)
  const env = rowsAt(container, 'env').flatMap((row) => {
    const value = findValue(row, secret)
    return value === undefined ? [] : [[String(row['name']), value] as const]
  })
  const command = texts('command')
  // A pod is input from the cluster: it must not start another program of this machine.
  if (!['brokkr dataflow processor', 'brokkr dataflow replay'].includes(command.join(' ')))
    throw new Error(`pod ${pod.metadata.name} does not run a processor: its command is ${command.join(' ')}`)
  const words = [...command.slice(1), ...texts('args')].map((word) => {
    if (word.startsWith('--spec-path=')) return `--spec-path=${join(folder, 'spec.json')}`
    return word.startsWith('--result-file=') ? `--result-file=${join(folder, 'result')}` : word
  })
  return {
    name: 'processor',
    command: program.command,
    args: [...program.args, ...words, ...(words[1] === 'processor' ? ['--metrics-port=0', '--tap-port=0'] : [])],
    cwd: folder,
    env: { ...program.env, ...Object.fromEntries(env), POD_NAME: pod.metadata.name, KUBECONFIG: kubeconfigPath },
    logFile: join(folder, 'processor.log'),
  }
}

interface Followed {
  readonly pod: KubeObject
  readonly process: OwnedProcess
  readonly restarts: number
  readonly signal: AbortSignal
}

/** Publishes the address and readiness of a processor until it ends. A failed attempt is repeated, so that the pod's status stays true. */
async function follow(
  { kube, log }: { readonly kube: Kube; readonly log: Log },
  { pod, process, restarts, signal }: Followed,
): Promise<void> {
  let [address, wasReady]: [string | undefined, boolean | undefined] = [undefined, undefined]
  while (process.isRunning() && !signal.aborted) {
    await publish().catch((error: unknown) => log.debug('pod not followed', { pod: pod.metadata.name, error: errorText(error) }))
    await Promise.race([sleep(pollMs), process.exited])
  }

  async function publish(): Promise<void> {
    if (address === undefined) {
      const ports = await findPorts(process)
      if (ports === undefined) return
      const found = `127.0.0.1:${ports.port}`
      const annotations = { [addressAnnotation]: found, [tapAnnotation]: ports.tap === undefined ? null : `127.0.0.1:${ports.tap}` }
      await kube.patch(refOf(pod), { type: 'merge', body: { metadata: { annotations } } })
      address = found
    }
    const isReady = address !== undefined && (await isAnswering(address))
    if (isReady !== wasReady) await patchStatus(kube, pod, toRunning(isReady, restarts))
    wasReady = isReady
  }
}

async function findPorts(process: OwnedProcess): Promise<{ port: number; tap: number | undefined } | undefined> {
  const text = (await readFile(process.logFile)).subarray(process.logStart).toString()
  const line = text.split('\n').find((each) => each.includes('"processor started"'))
  if (line === undefined) return undefined
  const started: unknown = JSON.parse(line)
  const port = numberAt(started, 'port')
  return port === undefined ? undefined : { port, tap: numberAt(started, 'tap_port') }
}

const isAnswering = (address: string): Promise<boolean> =>
  fetch(`http://${address}/readyz`, { signal: AbortSignal.timeout(2_000) }).then(
    ({ status }) => status === 200,
    () => false,
  )

const conditions = (isReady: boolean) =>
  ['ContainersReady', 'Ready'].map((type) => ({ type, status: isReady ? 'True' : 'False', lastTransitionTime: timeText(Date.now()) }))

const containerStatus = (state: object, more: { isReady: boolean; restarts: number }) => [
  { name: 'processor', image: 'local', imageID: '', ready: more.isReady, started: more.isReady, restartCount: more.restarts, state },
]

const toRunning = (isReady: boolean, restarts: number): object => ({
  phase: 'Running',
  conditions: conditions(isReady),
  containerStatuses: containerStatus({ running: { startedAt: timeText(Date.now()) } }, { isReady, restarts }),
})

const toWaiting = (exit: Exit, restarts: number): object => ({
  phase: 'Running',
  conditions: conditions(false),
  containerStatuses: containerStatus(
    { waiting: { reason: 'CrashLoopBackOff', message: `the process ended with code ${exit.code ?? exit.signal}` } },
    { isReady: false, restarts: restarts + 1 },
  ),
})

async function toEnd({ code }: Exit, folder: string): Promise<object> {
  const message = await readFile(join(folder, 'result'), 'utf8').catch(() => '')
  const terminated = { exitCode: code ?? 137, reason: code === 0 ? 'Completed' : 'Error', message, finishedAt: timeText(Date.now()) }
  return {
    phase: code === 0 ? 'Succeeded' : 'Failed',
    conditions: conditions(false),
    containerStatuses: containerStatus({ terminated }, { isReady: false, restarts: 0 }),
  }
}

/** A pod that is gone needs no status. */
async function patchStatus(kube: Kube, pod: KubeObject, status: object): Promise<void> {
  try {
    await kube.patch(
      refOf(pod),
      { type: 'strategic', body: { metadata: { uid: pod.metadata.uid ?? '' }, status } },
      { subresource: 'status' },
    )
  } catch (error) {
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error
  }
}
