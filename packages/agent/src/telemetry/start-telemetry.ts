// Composition root of telemetry: the sources of Kubernetes events and pod logs, and the loop that sends them. The sources run only
// while the broker accepts telemetry, and restart after a change of their settings.
import type { Loop, RunningLoop } from '@brokkr/runtime/loop.ts'
import { listAllowedNamespaces } from '../policy/policy.ts'
import type { OperationsDeps } from '../start-operations.ts'
import { StackFinder } from './find-stack.ts'
import { startKubeEvents } from './kube-events.ts'
import { startPodLogs } from './pod-logs.ts'
import { TelemetryBuffer } from './telemetry-buffer.ts'
import { telemetryLoop } from './telemetry-loop.ts'

interface Source {
  stop(): Promise<void>
}

const sourceSettings = [
  'kube_events',
  'pod_logs',
  'pod_log_lines_per_second',
  'kube_event_uid_cache_cap',
  'allowed_namespaces',
  'protected_namespaces',
].map((key) => `agent.${key}`)

export function startTelemetry(deps: OperationsDeps, start: (loop: Loop) => RunningLoop): void {
  const { clock, metrics, agentId, broker, paks, lifecycle, settings } = deps
  const buffer = new TelemetryBuffer({ metrics, now: () => clock.now() })
  const everyMs = settings.view.agent.telemetry_interval * 1000
  let sources: readonly Source[] = []
  const stop = async () => {
    const running = sources
    sources = []
    await Promise.all(running.map((source) => source.stop()))
  }
  let isServed = false
  const onServed = (served: boolean) => {
    isServed = served
    void stop()
    if (isServed && !lifecycle.signal.aborted) sources = startSources(deps, buffer)
  }
  const loop = start(telemetryLoop({ broker, pak: () => paks.current, agentId, ring: buffer, now: () => clock.now(), everyMs, onServed }))
  buffer.onFirst(() => loop.retime())
  settings.onChange((paths) => {
    if (isServed && sourceSettings.some((path) => paths.has(path))) onServed(true)
  })
  lifecycle.onClose('telemetry sources', stop)
}

function startSources({ kube, clock, log, agentId, reconcile, settings }: OperationsDeps, buffer: TelemetryBuffer): readonly Source[] {
  const { agent } = settings.view
  const stackFinder = new StackFinder({ kube, clock, members: reconcile.members }, agent.kube_event_uid_cache_cap)
  const shared = {
    kube,
    clock,
    log,
    ring: buffer,
    stackOf: stackFinder,
    agentId,
    namespaces: listAllowedNamespaces(reconcile.settings.policy),
  }
  return [
    ...(agent.kube_events ? [startKubeEvents(shared)] : []),
    ...(agent.pod_logs ? [startPodLogs({ ...shared, linesPerSecond: agent.pod_log_lines_per_second })] : []),
  ]
}
