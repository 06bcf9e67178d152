// Composition root of the broker: configuration → listener (probes only) → database → change feed → authentication → tasks → API.
// A step opens resources, registers their closes and returns the parts that later steps and handlers use (deps.ts). A new feature is
// one more step, or a line in one of them.
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { ConfigError, wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import { type LoadedConfig, loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { listSettingsWithoutEffect } from './accepted-settings.ts'
import { type BrokerConfig, brokerTable, checkBrokerConfig, readWatcherSettings } from './config.ts'
import { createContext, type StartDeps } from './startup/context.ts'
import { openApi } from './startup/open-api.ts'
import { openFeed } from './startup/open-feed.ts'
import { openListener, openMetricsPort } from './startup/open-listener.ts'
import { openReload } from './startup/open-reload.ts'
import { openSecurity } from './startup/open-security.ts'
import { openStore } from './startup/open-store.ts'
import { openTasks } from './startup/open-tasks.ts'
import { openTracing } from './startup/open-tracing.ts'

/** `brokkr broker`: reads the configuration, serves until a signal ends it. */
export async function runBroker(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown>; clock?: Clock }): Promise<void> {
  checkStart()
  try {
    const sources = {
      table: brokerTable,
      env: options.env,
      flags: options.flags ?? {},
      ignoredSections: ['agent', 'cli'],
      check: checkBrokerConfig,
    }
    const config = await loadConfig({ ...sources, createMissingSecrets: true })
    const watcher = readWatcherSettings(options.env)
    const log = createLog({ name: 'brokkr-broker', level: config.value.log.level, format: config.value.log.format })
    const withoutEffect = listSettingsWithoutEffect(config)
    if (withoutEffect.length > 0) log.warn('settings have no effect in this release', { settings: withoutEffect })
    const lifecycle = createLifecycle({ log }, { graceMs: config.value.server.shutdown_seconds * 1000 })
    lifecycle.listenForSignals()
    const startDeps = { log, onClose: lifecycle.onClose.bind(lifecycle), clock: options.clock ?? systemClock }
    const broker = await startBroker(config, { ...startDeps, readSettings: () => loadConfig(sources), watcher })
    log.info('broker ready', { address: broker.address })
    await lifecycle.closed
  } catch (error) {
    // One line per failure; a configuration error lists all problems.
    process.stderr.write(`brokkr broker did not start: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(error instanceof ConfigError ? wrongConfigurationExitCode : 1)
  }
}

async function startBroker(settings: LoadedConfig<BrokerConfig>, startDeps: StartDeps): Promise<{ address: string }> {
  const context = createContext(settings, startDeps)
  const tracer = await openTracing(context)
  const listener = await openListener({ ...context, tracer })
  try {
    await openMetricsPort(context, listener)
    const store = await openStore(context)
    const feed = openFeed({ ...context, ...store })
    const security = await openSecurity({ ...context, ...store, ...feed })
    const backgroundWork = openTasks({ ...context, ...store, ...feed })
    const reload = await openReload({ ...context, ...store, ...feed })
    feed.feed.start()
    openApi({ ...context, ...store, ...feed, ...security, ...backgroundWork, ...reload }, listener)
    return { address: listener.address }
  } catch (error) {
    await listener.close(0)
    throw error
  }
}

if (import.meta.main) await runBroker({ env: process.env })
