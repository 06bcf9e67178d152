// Kubernetes events and pod logs: what gathers them, and the loop that sends them. The sources are made anew when a setting that
// they rest on has changed, the namespaces that may be looked into among them.
import type { LiveSettings } from './live-settings.ts'
import { telemetryLoop } from './loops/telemetry.ts'
import type { OperationsDeps } from './open-operations.ts'
import { namespacesOf } from './policy.ts'
import { startKubeEvents } from './telemetry/kube-events.ts'
import { startPodLogs } from './telemetry/pod-logs.ts'
import { TelemetryRing } from './telemetry/ring.ts'
import { StackOf } from './telemetry/stack-of.ts'

interface Source {
  stop(): Promise<void>
}

const restsOn = [
  'kube_events',
  'pod_logs',
  'pod_log_lines_per_second',
  'kube_event_uid_cache_cap',
  'allowed_namespaces',
  'protected_namespaces',
].map((key) => `agent.${key}`)

export function openTelemetry(deps: OperationsDeps & { readonly settings: LiveSettings }): void {
  const { clock, metrics, agentId, broker, keys, lifecycle, settings } = deps
  const ring = new TelemetryRing({ metrics, now: () => clock.now() })
  const everyMs = settings.view.agent.telemetry_interval * 1000
  const loop = deps.open(telemetryLoop({ broker, pak: () => keys.current, agentId, ring, now: () => clock.now(), everyMs }))
  ring.onFirst(() => loop.retime())
  let sources = startSources(deps, ring)
  const stop = async () => void (await Promise.all(sources.map((source) => source.stop())))
  settings.onChange((paths) => {
    if (lifecycle.signal.aborted || !restsOn.some((path) => paths.has(path))) return
    void stop()
    sources = startSources(deps, ring)
  })
  lifecycle.onClose('telemetry sources', stop)
}

function startSources({ kube, clock, log, agentId, reconcile, settings }: OperationsDeps, ring: TelemetryRing): readonly Source[] {
  const { agent } = settings.view
  const stackOf = new StackOf({ kube, clock, members: reconcile.members }, agent.kube_event_uid_cache_cap)
  const shared = { kube, clock, log, ring, stackOf, agentId, namespaces: namespacesOf(reconcile.settings.policy) }
  return [
    ...(agent.kube_events ? [startKubeEvents(shared)] : []),
    ...(agent.pod_logs ? [startPodLogs({ ...shared, linesPerSecond: agent.pod_log_lines_per_second })] : []),
  ]
}
