// The running controller: caches, watches, queue and full scan put together. Wake-ups have a name, never content.
import { createRecorder, hasReason, type Kube, type Outcome, startController } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { Clusters } from '../clusters/clusters.ts'
import type { RemoteTimes } from '../clusters/remote-cluster.ts'
import type { DecideSettings } from '../decide/policy.ts'
import type { Explanation } from '../hooks/deps.ts'
import type { BrokerClients } from '../stacks/broker-clients.ts'
import { StackStates } from '../stacks/stack-states.ts'
import type { Strategy } from '../strategies/strategy.ts'
import { StepFailed } from './attempt.ts'
import { BranchCleaner } from './branch-cleaner.ts'
import { EffectReads } from './effect-reads.ts'
import { EffectSlots, QUICK_WORKERS } from './effect-slots.ts'
import { PipelineEvents } from './events.ts'
import type { Leadership } from './leadership.ts'
import { Observer } from './observe.ts'
import { explainPass, type PassDeps, previewPass, runPass } from './pass.ts'
import { measureRecords, PipelineMetrics } from './pipeline-metrics.ts'
import { readSecret, SecretVersions } from './read-secret.ts'
import { RecordWriter } from './record-writer.ts'
import { Records } from './records.ts'
import { sweep } from './sweep.ts'
import { WakeUps } from './wake-ups.ts'
import { WatchDriver } from './watch-driver.ts'

export interface ControllerDeps {
  /** Management cluster. */
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly leadership: Leadership
  readonly strategies: readonly Strategy[]
  readonly brokers: BrokerClients
}

export interface ControllerSettings {
  readonly decide: DecideSettings
  readonly retry: { readonly baseMs: number; readonly maxMs: number }
  readonly clusters: RemoteTimes
  /** Pauses after passes that failed. */
  readonly passBackoff: { readonly baseMs: number; readonly maxMs: number }
  /** Shortest pause between two reads of an effect that were requested. */
  readonly effectReadFloorMs: number
  readonly resyncMs: number
  /** Passes in parallel that call outside servers. Two more observe, decide and write records. */
  readonly workers: number
  readonly noCrossNamespaceRefs: boolean
  /** Branches of promotions that ended `ageMs` ago are removed. */
  readonly cleaner: { readonly everyMs: number; readonly ageMs: number }
  /** Pause between two reads of the stacks that Pipelines use. */
  readonly stackPollMs: number
  /** Address of the broker for strategies that name none. */
  readonly brokerUrl: string | null
}

export const defaultControllerSettings: ControllerSettings = {
  decide: {
    defaultTrigger: 'Watch',
    attempts: 10,
    retryMaxMs: 600_000,
    promotionSettleMs: 300_000,
    effectPollMs: 30_000,
    blockPollMsMax: 600_000,
    blockedRetryMs: 1_800_000,
    windows: [],
  },
  retry: { baseMs: 5_000, maxMs: 600_000 },
  clusters: { probeEveryMs: 20_000, staleMs: 60_000, collectAfterMs: 2_000, rotationMs: 60_000 },
  passBackoff: { baseMs: 200, maxMs: 60_000 },
  effectReadFloorMs: 10_000,
  resyncMs: 300_000,
  workers: 8,
  noCrossNamespaceRefs: false,
  cleaner: { everyMs: 3_600_000, ageMs: 3_600_000 },
  stackPollMs: 10_000,
  brokerUrl: null,
}

export interface PipelinesController {
  readonly records: Records
  /** The caches of the management cluster are complete. */
  readonly isReady: boolean
  wake(pipelineKey: string): void
  /** What a pass would see and decide now; null: there is no such Pipeline, or its spec is invalid. */
  explain(pipelineKey: string): Explanation | null
  /** The change that the next promotion would make, as a unified diff; null: there is none. */
  preview(pipelineKey: string, signal: AbortSignal): Promise<string | null>
  /** Passes over all Pipelines: at the begin of a term. */
  wakeAll(): void
  whenIdle(): Promise<void>
  stop(): Promise<void>
}

const USED_SET_EVERY_MS = 60_000
const STOP_GRACE_MS = 10_000
const CONFLICT_MS = 500

export function startPipelinesController(deps: ControllerDeps, settings: ControllerSettings): PipelinesController {
  const { kube, clock } = deps
  const wakeUps = new WakeUps()
  const records = new Records(deps)
  const clusters = new Clusters(
    {
      ...deps,
      onApp: (cluster, kind, key) => wakeUps.appChanged(cluster, kind, key),
      onCluster: (cluster) => wakeUps.clusterChanged(cluster),
    },
    settings.clusters,
  )
  const stacks = new StackStates(
    { ...deps, readSecret: (at, signal) => readSecret(kube, at, signal), onChange: (key) => wakeUps.pipelineChanged(key) },
    { pollMs: settings.stackPollMs, staleMs: settings.clusters.staleMs },
  )
  const secrets = new SecretVersions({ ...deps, onChange: (key) => wakeUps.secretChanged(key) })
  const recorder = createRecorder(deps, { component: 'brokkr-pipelines', instance: deps.leadership.holder })
  const effectReads = new EffectReads(deps, settings.effectReadFloorMs)
  const { noCrossNamespaceRefs, brokerUrl } = settings
  const pass: PassDeps = {
    ...deps,
    records,
    writer: new RecordWriter(deps),
    observer: new Observer({ clusters, stacks, clock, noCrossNamespaceRefs, brokerUrl }),
    events: new PipelineEvents(recorder),
    metrics: new PipelineMetrics(deps.metrics),
    settings: settings.decide,
    retry: settings.retry,
    effectReads,
    effectSlots: new EffectSlots(settings.workers, (key) => wakeUps.pipelineChanged(key)),
    secretVersion: (key) => secrets.versionOf(key),
  }
  const queue = startController(deps, {
    name: 'pipelines',
    concurrency: settings.workers + QUICK_WORKERS,
    backoff: { ...settings.passBackoff, jitter: 'equal' },
    reconcile: async (key, signal) => (deps.leadership.isLeader ? repeatLater(runPass(pass, key, signal)) : 'done'),
  })
  const keepEffectReads = (open: ReadonlySet<string>) => effectReads.keep(open)
  const driver = new WatchDriver({ records, clusters, stacks, secrets, wakeUps, keepEffectReads }, settings)
  const driving = startLoop(deps, { name: 'pipelines-used-set', everyMs: USED_SET_EVERY_MS, run: async () => driver.drive() })
  const scanAll = (signal: AbortSignal) => {
    const keys = [...records.listPipelines()].map(({ key }) => key)
    return sweep(deps, { queue, keys, batch: settings.workers }, signal)
  }
  const resync = startLoop(deps, { name: 'pipelines-resync', everyMs: settings.resyncMs, run: scanAll })
  const cleaner = new BranchCleaner({ ...pass, records, leadership: deps.leadership }, settings.cleaner.ageMs)
  const cleaning = startLoop(deps, { name: 'pipelines-cleaner', everyMs: settings.cleaner.everyMs, run: (signal) => cleaner.run(signal) })
  measureRecords(deps.metrics, { records, leadership: deps.leadership })
  wakeUps.onWake((key) => queue.enqueue(key))
  records.onChange((key) => {
    // Many changes at once, as in the first list, make one or two runs of the loop.
    if (driver.noteChange(key)) driving.wake()
    queue.enqueue(key)
  })
  return {
    records,
    get isReady() {
      return records.isSynced && clusters.isReady
    },
    wake: (key) => queue.enqueue(key),
    explain: (key) => explainPass(pass, key),
    preview: (key, signal) => previewPass(pass, key, signal),
    wakeAll: () => resync.wake(),
    whenIdle: () => queue.whenIdle(),
    async stop() {
      await Promise.all([driving.stop(), resync.stop(), cleaning.stop()])
      await queue.stop({ graceMs: STOP_GRACE_MS })
      await recorder.flush()
      await Promise.all([clusters.stop(), stacks.stop(), secrets.stop(), records.stop()])
    },
  }
}

/**
 * A version conflict is no failure: the decision is made again on the newer record, whose event mostly comes first. After a rate limit the
 * pause is the one that the server named.
 */
async function repeatLater(pass: Promise<Outcome>): Promise<Outcome> {
  try {
    return await pass
  } catch (error) {
    if (hasReason(error, 'Conflict')) return { afterMs: CONFLICT_MS }
    if (error instanceof StepFailed && error.retryAfterMs !== undefined) return { afterMs: error.retryAfterMs }
    throw error
  }
}
