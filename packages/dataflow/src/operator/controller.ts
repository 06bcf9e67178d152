// The controller of flows: caches, one queue of flows, and what wakes a flow. Only the leader acts; a standby keeps its caches warm.
import { createRecorder, type Kube, type KubeObject, startController } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { FlowIndex, findFlowKey, SecretIndex } from './flow-index.ts'
import { measureFlows } from './metrics.ts'
import { flowKey, parseFlowKey } from './names.ts'
import { Children } from './passes/children.ts'
import { CronPasses } from './passes/cron-pass.ts'
import { Deletion } from './passes/deletion.ts'
import { FlowPasses } from './passes/flow-pass.ts'
import { FlowWriter } from './passes/flow-writer.ts'
import { Replays } from './passes/replays.ts'
import { UpgradePlaces } from './passes/roll-outs.ts'
import type { EnvironmentSource } from './processor-environment.ts'
import { ProgressReader } from './status/progress.ts'
import { ClusterView } from './watches.ts'

export interface ControllerDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly environment: EnvironmentSource
  readonly isLeader: () => boolean
  readonly identity: string
}

export interface ControllerSettings {
  readonly namespaces: readonly string[]
  readonly watchSecrets: boolean
  readonly hasPodMonitors: boolean
  readonly workers: number
  readonly rolloutConcurrency: number
  readonly timeoutMs: number
  readonly pendingMs: number
  readonly isProgressFromAnnotation: boolean
  readonly progressMs: number
  readonly allowLoopback: boolean
}

export interface FlowController {
  whenSynced(signal: AbortSignal): Promise<void>
  /** For a new term of the Lease. */
  wakeAll(): void
  whenIdle(): Promise<void>
  stop(): Promise<void>
}

/** Another process leads. */
const standbyMs = 5_000

export function startFlowController(deps: ControllerDeps, settings: ControllerSettings): FlowController {
  const { kube, clock, log, metrics, environment } = deps
  const { hasPodMonitors, allowLoopback } = settings
  const view = new ClusterView(deps, settings)
  const [pods, jobs] = [new FlowIndex(), new FlowIndex()]
  const secretIndex = new SecretIndex()
  const places = new UpgradePlaces({ max: settings.rolloutConcurrency, deployments: view.deployments })
  const recorder = createRecorder({ kube, clock, log }, { component: 'brokkr-dataflow-operator', instance: deps.identity })
  const children = new Children({ kube, view })
  const writer = new FlowWriter({ kube, view, recorder })
  const outbound = createOutbound(
    {},
    {
      schemes: ['http:'],
      allow: { classes: settings.isProgressFromAnnotation ? ['private', 'carrier-nat', 'loopback'] : ['private', 'carrier-nat'] },
    },
  )
  const progress = new ProgressReader(
    { clock, log, outbound },
    {
      pods: (flow) => pods.list(flow),
      isFromAnnotation: settings.isProgressFromAnnotation,
      everyMs: settings.progressMs,
      onRead: (flow) => controller.enqueue(flow),
    },
  )
  const currentEnvironment = () => {
    const { current, problem } = environment
    if (current === undefined) throw new Error(problem ?? 'no image of processors is known')
    return current
  }
  const forget = (key: string): void => {
    passes.forget(key)
    progress.forget(key)
  }
  const deletion = new Deletion({ kube, clock, log, children, writer, hasPodMonitors, allowLoopback, forget })
  const replays = new Replays({ kube, children, environment: currentEnvironment, jobs: (flow) => jobs.list(flow) })
  const passDeps = {
    kube,
    clock,
    view,
    children,
    places,
    hasPodMonitors,
    writer,
    deletion,
    replays,
    secretIndex,
    environment: currentEnvironment,
    pods: (flow: string) => pods.list(flow),
    jobs: (flow: string) => jobs.list(flow),
    progress: (flow: string) => progress.get(flow),
  }
  const passSettings = { pendingMs: settings.pendingMs, isWatched: (key: string) => isSecretWatched(settings, key) }
  const passes: FlowPasses = new FlowPasses(passDeps, passSettings)
  const cronPasses = new CronPasses(passDeps, passSettings, passes)
  const controller = startController(
    { clock, log, metrics },
    {
      name: 'flows',
      concurrency: settings.workers,
      timeoutMs: settings.timeoutMs,
      reconcile: async (key, signal) => {
        if (!deps.isLeader()) return { afterMs: standbyMs }
        await view.whenSynced(signal)
        try {
          return await (parseFlowKey(key).kind === 'DataFlowCron' ? cronPasses.run(key, signal) : passes.run(key, signal))
        } finally {
          // The end of a rollout may be in the cache before the place is noted; no change follows then.
          wakeWaiting()
        }
      },
    },
  )
  wake()
  measureFlows(metrics, { isLeader: deps.isLeader, flows: () => view.listFlows() })

  /** Connects changes in the cluster with the queue. */
  function wake(): void {
    const enqueueOwner = (object: KubeObject): void => {
      const key = findFlowKey(object)
      if (key !== undefined) controller.enqueue(key)
    }
    for (const watched of view.flows)
      watched.onChange(({ value }) => {
        controller.enqueue(flowKey(value))
        progress.wake(flowKey(value))
      })
    view.deployments.onChange(({ value }) => {
      enqueueOwner(value)
      wakeWaiting()
    })
    view.pods.onChange((change) => {
      const key = pods.take(change)
      if (key === undefined) return
      controller.enqueue(key)
      progress.wake(key)
    })
    view.jobs.onChange((change) => {
      const key = jobs.take(change)
      if (key !== undefined) controller.enqueue(key)
    })
    view.cronJobs.onChange(({ value }) => enqueueOwner(value))
    for (const watched of view.versioned)
      watched.onChange((change) => {
        // A checkpoint changes all the time; only its absence counts.
        if (watched.kind !== 'ConfigMap' || change.type === 'deleted') enqueueOwner(change.value)
      })
    view.secrets?.onChange(({ key, value }) => {
      for (const flow of secretIndex.flowsOf(key)) controller.enqueue(flow)
      enqueueOwner(value)
    })
    environment.onUpgrade(() => wakeAll())
  }

  function wakeWaiting(): void {
    for (const key of places.wake()) controller.enqueue(key)
  }

  function wakeAll(): void {
    for (const flow of view.listFlows()) controller.enqueue(flowKey(flow))
  }

  return {
    whenSynced: (signal) => view.whenSynced(signal),
    wakeAll,
    whenIdle: () => controller.whenIdle(),
    stop: async () => {
      await Promise.all([controller.stop({ graceMs: 5_000 }), progress.stop()])
      await recorder.flush()
      await Promise.all([view.stop(), outbound.close()])
    },
  }
}

function isSecretWatched({ namespaces, watchSecrets }: ControllerSettings, key: string): boolean {
  const { namespace } = parseFlowKey(`Secret/${key}`)
  return watchSecrets && (namespaces.length === 0 || namespaces.includes(namespace))
}
