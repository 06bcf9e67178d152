// The agent's PAK: configured by the operator, or created, stored, and renewed by the agent itself.
import { type Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { AgentConfig } from '../config.ts'
import type { BrokerHttp } from '../connection/broker-http.ts'
import { parseVersion } from '../reporting/heartbeat-loop.ts'
import { version } from '../version.ts'
import { type JoinRequest, join } from './join.ts'
import { choosePak, type PakProbe, type PakStore } from './own-pak.ts'
import { pakRenewalLoop } from './pak-renewal-loop.ts'
import type { AgentPaks } from './paks.ts'

export interface PakLifecycleDeps {
  readonly clock: Clock
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly kube: Kube
  readonly paks: AgentPaks
  readonly store: PakStore
  readonly probe: PakProbe
  readonly broker: BrokerHttp
  /** Read again with the settings, because their files may have changed. */
  readonly reload: () => Promise<{ pak: string | null; joinToken: string | null }>
}

export interface PakLifecycle {
  /** Called before each sign-in attempt: joins, or chooses the valid PAK. */
  readonly prepare: (signal: AbortSignal) => Promise<void>
  /** The broker refused the current PAK: finishes a started renewal at once. */
  readonly onRefused: () => void
}

export function startPakLifecycle(deps: PakLifecycleDeps, { agent }: AgentConfig): PakLifecycle {
  const { clock, log, lifecycle, paks, store, probe, broker } = deps
  watchSettings(deps)
  const loop = pakRenewalLoop({ paks, store, probe, clock, log, days: agent.pak_rotation_days })
  const renewal = startLoop({ clock, log }, loop)
  lifecycle.onClose('key-renewal', () => renewal.stop())
  const now = () => clock.now()
  const prepare = async (signal: AbortSignal) => {
    if (agent.pak !== null) return
    const stored = await store.read()
    if (stored !== null && stored.sinceMs !== null) return paks.setStored(await choosePak({ store, probe, now }, stored))
    const { joinToken: token } = await deps.reload()
    if (token === null) return
    paks.setStored(await join({ store, probe, broker, now }, { token, ...(await joinFacts(deps, agent, signal)) }, signal))
    log.info('agent joined', { name: agent.agent_name, cluster_name: agent.cluster_name })
  }
  const onRefused = () => {
    if (loop.isWorthARun()) renewal.wake()
  }
  return { prepare, onRefused }
}

async function joinFacts(
  { kube }: PakLifecycleDeps,
  agent: AgentConfig['agent'],
  signal: AbortSignal,
): Promise<Omit<JoinRequest, 'token'>> {
  const system = await kube.get({ apiVersion: 'v1', kind: 'Namespace', name: 'kube-system' }, { metadataOnly: true, signal })
  const { text } = await kube.request('GET', '/version', { signal })
  return {
    name: agent.agent_name,
    clusterName: agent.cluster_name,
    clusterUid: system.metadata.uid ?? '',
    agentVersion: version,
    k8sVersion: parseVersion(text) ?? '',
  }
}

const settingsLookMs = 5_000

/** Polls the files: some volumes send no change notification. */
function watchSettings({ clock, log, lifecycle, reload, paks, broker }: PakLifecycleDeps): void {
  let hasFailed = false
  const run = async () => {
    try {
      paks.setConfigured((await reload()).pak)
      await broker.refreshTls()
      hasFailed = false
    } catch (error) {
      if (!hasFailed) log.warn('settings reload failed', { why: errorText(error) })
      hasFailed = true
    }
  }
  const loop = startLoop({ clock, log }, { name: 'settings', everyMs: settingsLookMs, run })
  lifecycle.onClose('settings', () => loop.stop())
}
