// Values that every step of the start uses: settings, clock, log, metrics, and the registration of closes.
import { hostname } from 'node:os'
import type { PakForm } from '@brokkr/contract/auth/pak.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createLiveConfig, type LiveConfig } from '@brokkr/runtime/config/live-config.ts'
import type { LoadedConfig } from '@brokkr/runtime/config/load-config.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics, type Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { type BrokerConfig, isTls, type WatcherSettings } from '../config.ts'
import { type SessionCookie, sessionCookie } from '../http/authentication/session-cookie.ts'

export interface StartDeps {
  readonly log: Log
  /** Registers a close; the closes run in reverse order. A step registers one in the line after it opened a resource. */
  readonly onClose: (name: string, close: () => Promise<void> | void) => void
  readonly clock: Clock
  /** Reads all sources of settings again. */
  readonly readSettings: () => Promise<LoadedConfig<BrokerConfig>>
  readonly watcher: WatcherSettings
}

export interface StartContext extends StartDeps {
  /** Settings in effect. A reload changes its values, so they are read at every use. */
  readonly config: BrokerConfig
  readonly liveConfig: LiveConfig<BrokerConfig>
  readonly metrics: Metrics
  readonly cookie: SessionCookie
  readonly pakForm: PakForm
  /** Name of this process in leases and cursors. */
  readonly processName: string
}

export function createContext(settings: LoadedConfig<BrokerConfig>, deps: StartDeps): StartContext {
  const liveConfig = createLiveConfig(settings)
  return {
    ...deps,
    liveConfig,
    config: liveConfig.value,
    metrics: createMetrics({ processMetrics: true }),
    pakForm: liveConfig.value.pak,
    cookie: sessionCookie({ isTls: isTls(settings.value.server) }),
    processName: `${hostname()}-${process.pid}`,
  }
}
