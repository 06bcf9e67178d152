// The agent's key from its sources: given by the operator, or kept in the cluster by the agent itself, which joins and renews it.
import type { Kube } from '@brokkr/kube/kube.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { BrokerHttp } from './broker-http.ts'
import type { AgentConfig } from './config.ts'
import { type JoinForm, join } from './join.ts'
import type { Keys } from './keys.ts'
import { versionIn } from './loops/heartbeat.ts'
import { keyRenewalLoop } from './loops/key-renewal.ts'
import { type KeyJudge, type KeyStore, pickKey } from './own-key.ts'
import { version } from './version.ts'

export interface OpenKeysDeps {
  readonly clock: Clock
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly kube: Kube
  readonly keys: Keys
  readonly store: KeyStore
  readonly judge: KeyJudge
  readonly broker: BrokerHttp
  /** Both are read again with the settings: a file may hold another one by now. */
  readonly reload: () => Promise<{ pak: string | null; joinToken: string | null }>
}

/** Gives what is to be done before each try to sign in: join, or find the key that counts. */
export function openKeys(deps: OpenKeysDeps, { agent }: AgentConfig): (signal: AbortSignal) => Promise<void> {
  const { clock, log, lifecycle, keys, store, judge, broker } = deps
  watchSettings(deps)
  const renewal = startLoop({ clock, log }, keyRenewalLoop({ keys, store, judge, clock, log, days: agent.pak_rotation_days }))
  lifecycle.onClose('key-renewal', () => renewal.stop())
  const now = () => clock.now()
  return async (signal) => {
    if (agent.pak !== null) return
    const kept = await store.read()
    if (kept !== null && kept.sinceMs !== null) return keys.keep(await pickKey({ store, judge, now }, kept))
    const { joinToken: token } = await deps.reload()
    if (token === null) return
    keys.keep(await join({ store, judge, broker, now }, { token, ...(await joinFacts(deps, agent, signal)) }, signal))
    log.info('joined', { name: agent.agent_name, cluster_name: agent.cluster_name })
  }
}

async function joinFacts({ kube }: OpenKeysDeps, agent: AgentConfig['agent'], signal: AbortSignal): Promise<Omit<JoinForm, 'token'>> {
  const system = await kube.get({ apiVersion: 'v1', kind: 'Namespace', name: 'kube-system' }, { metadataOnly: true, signal })
  const { text } = await kube.request('GET', '/version', { signal })
  return {
    name: agent.agent_name,
    clusterName: agent.cluster_name,
    clusterUid: system.metadata.uid ?? '',
    agentVersion: version,
    k8sVersion: versionIn(text) ?? '',
  }
}

const settingsLookMs = 5_000

/** Files are read again now and then: they may lie on a volume that tells nobody when it changes. */
function watchSettings({ clock, log, lifecycle, reload, keys, broker }: OpenKeysDeps): void {
  let hasFailed = false
  const run = async () => {
    try {
      keys.give((await reload()).pak)
      await broker.refreshTls()
      hasFailed = false
    } catch (error) {
      if (!hasFailed) log.warn('the settings cannot be read again; those of before stay', { why: errorText(error) })
      hasFailed = true
    }
  }
  const loop = startLoop({ clock, log }, { name: 'settings', everyMs: settingsLookMs, run })
  lifecycle.onClose('settings', () => loop.stop())
}
