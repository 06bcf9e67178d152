// A real Kubernetes control plane on loopback without a container engine: etcd and kube-apiserver, on request controllers, scheduler
// and nodes simulated by KWOK. A start in the folder of an earlier one reuses its data, ports and credentials.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { KubeAssets } from '../assets/kube-assets.ts'
import { type ApiOptions, type ApiResponse, openKubeApi } from './api-call.ts'
import { type Component, portNames } from './components.ts'
import { changePort, openPlaneDir, type PlaneDir, writeDerivedFiles } from './plane-dir.ts'
import { PlaneProcesses, planeLogTail, StartFailed } from './plane-processes.ts'
import { ensurePracticeNodes } from './practice-nodes.ts'

export type ControlPlaneOptions = {
  /** Folder of keys, data, logs and sockets. */
  dir: string
  /** At least the core; `useAssets` adds more later. */
  assets: KubeAssets
  /** Controller manager and scheduler. */
  controllers?: boolean
  /** Number of simulated nodes; more than 0 also starts the controllers. */
  nodes?: number
  /** No limit for parallel requests. */
  liftLimits?: boolean
  apiserverArgs?: readonly string[]
  log?: Log
  onProgress?: (step: string) => void
  signal?: AbortSignal
}

export type ControlPlane = {
  readonly url: string
  readonly kubeconfigPath: string
  /** The same cluster and user, by client certificate. */
  readonly kubeconfigCertPath: string
  readonly caPem: string
  /** Token of a member of system:masters. */
  readonly token: string
  /** Token of a user without permissions. */
  readonly plainToken: string
  readonly dir: string
  /** Output of `kubectl logs` for every pod; can be appended to. */
  readonly podLogPath: string
  readonly pids: () => Partial<Record<Component, number>>
  /** Sends SIGKILL by default; returns when the process has ended. */
  readonly kill: (component: Component, signal?: NodeJS.Signals) => Promise<void>
  /** Starts a component that does not run; returns when it is ready. */
  readonly start: (component: Component) => Promise<void>
  /** Adds programs that were obtained after the start, for controllers and nodes. */
  readonly useAssets: (assets: KubeAssets) => void
  readonly startControllers: () => Promise<void>
  readonly ensureNodes: (count: number) => Promise<void>
  readonly api: <T = unknown>(method: string, path: string, options?: ApiOptions) => Promise<ApiResponse<T>>
  readonly logTail: (component: Component, lines?: number) => string
  readonly stop: () => Promise<void>
}

const startLimitMs = 120_000

export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { assets, liftLimits = false, apiserverArgs = [], nodes = 0 } = options
  const signal = options.signal === undefined ? {} : { signal: options.signal }
  const processes = new PlaneProcesses(assets, { liftLimits, apiserverArgs, startLimitMs, ...signal })
  const begin = performance.now()
  try {
    const plane = createControlPlane(await startCore(await openPlaneDir(options.dir), processes, options), processes, options)
    if (nodes > 0) await plane.ensureNodes(nodes)
    else if (options.controllers === true) await plane.startControllers()
    options.log?.info('control plane started', { url: plane.url, version: assets.version, ms: Math.round(performance.now() - begin) })
    return plane
  } catch (error) {
    await processes.stop()
    throw error
  }
}

async function startCore(plane: PlaneDir, processes: PlaneProcesses, options: ControlPlaneOptions): Promise<PlaneDir> {
  await writeDerivedFiles(plane, processes.assets.kwokStages)
  options.onProgress?.('etcd')
  await processes.start(plane, 'etcd')
  await startOnFreePort('kube-apiserver', plane, processes, options)
  return plane
}

/** Another process can take a port between the check and its use; then starts once more on another port. */
async function startOnFreePort(
  component: keyof typeof portNames,
  plane: PlaneDir,
  processes: PlaneProcesses,
  options: ControlPlaneOptions,
) {
  options.onProgress?.(component)
  try {
    await processes.start(plane, component)
  } catch (error) {
    if (!(error instanceof StartFailed) || !error.isPortTaken) throw error
    await changePort(plane, portNames[component])
    await writeDerivedFiles(plane, processes.assets.kwokStages)
    options.log?.warn('port in use, starting on another', { component, port: plane.ports[portNames[component]] })
    await processes.start(plane, component)
  }
}

function createControlPlane(plane: PlaneDir, processes: PlaneProcesses, options: ControlPlaneOptions): ControlPlane {
  const url = `https://127.0.0.1:${plane.ports.apiserver}`
  const api = openKubeApi({ url, caPem: plane.caPem, token: plane.token })
  const startAll = (components: readonly (keyof typeof portNames)[]) => {
    const stoppedComponents = components.filter((component) => !processes.isRunning(component))
    return Promise.all(stoppedComponents.map((component) => startOnFreePort(component, plane, processes, options)))
  }
  const startControllers = async () => {
    await startAll(['kube-controller-manager', 'kube-scheduler'])
    await waitForDefaultAccount(api)
  }
  const ensureNodes = async (count: number) => {
    await writeDerivedFiles(plane, processes.assets.kwokStages)
    await Promise.all([startControllers(), startAll(['kwok'])])
    options.onProgress?.('nodes')
    await ensurePracticeNodes(api, count, startLimitMs)
  }
  const inTurn = oneAtATime()
  return {
    url,
    kubeconfigPath: plane.path('kubeconfig'),
    kubeconfigCertPath: plane.path('kubeconfigCert'),
    caPem: plane.caPem,
    token: plane.token,
    plainToken: plane.plainToken,
    dir: plane.dir,
    podLogPath: plane.path('podLog'),
    pids: () => processes.pids(),
    kill: (component, signal = 'SIGKILL') => processes.kill(component, signal),
    start: (component) => processes.start(plane, component),
    useAssets: (assets) => {
      processes.assets = assets
    },
    startControllers: () => inTurn(startControllers),
    ensureNodes: (count) => inTurn(() => ensureNodes(count)),
    api: api.call,
    logTail: (component, lines = 20) => planeLogTail(plane, component, lines),
    stop: async () => {
      api.close()
      await processes.stop()
    },
  }
}

/** Serializes concurrent callers, so that each component is started once. */
function oneAtATime() {
  let last: Promise<unknown> = Promise.resolve()
  return (work: () => Promise<void>): Promise<void> => {
    const mine = last.then(work)
    last = mine.catch(() => {})
    return mine
  }
}

/** Pods cannot be created before their namespace has its default service account. */
async function waitForDefaultAccount(api: { call: ControlPlane['api'] }): Promise<void> {
  const end = performance.now() + startLimitMs
  for (;;) {
    const { status } = await api.call('GET', '/api/v1/namespaces/default/serviceaccounts/default')
    if (status === 200) return
    if (performance.now() > end)
      throw new Error(`the controllers did not create the default service account within ${startLimitMs / 1000} s`)
    await sleep(50)
  }
}
