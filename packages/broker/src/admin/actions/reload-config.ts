// Reloads the configuration file: everything is validated first, then all hot settings change in one step. A file with any problem changes
// nothing. Settings that need a restart are listed and keep their values.
import { readFile } from 'node:fs/promises'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { ConfigError } from '@brokkr/runtime/config/config-error.ts'
import { findKeyLine } from '@brokkr/runtime/config/key-lines.ts'
import type { LiveConfig } from '@brokkr/runtime/config/live-config.ts'
import type { ConfigChange, LoadedConfig } from '@brokkr/runtime/config/load-config.ts'
import type { Log, LogLevel } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as configReloads from '../store/config-reloads.ts'

export interface ShownChange {
  readonly key: string
  readonly old_value: string
  readonly new_value: string
}
export interface ConfigReloader {
  /** Throws `config_invalid`. `othersToo`: every other broker process reloads too, through the change feed. */
  reload(input: { readonly actor: Actor; readonly othersToo: boolean }): Promise<readonly ShownChange[]>
}
interface Reloadable {
  readonly log: { readonly level: LogLevel }
}
interface ReloaderDeps<Config extends Reloadable> {
  readonly sql: Sql
  readonly log: Log
  readonly metrics: Metrics
  readonly live: LiveConfig<Config>
  readonly readSettings: () => Promise<LoadedConfig<Config>>
  readonly wakeFeed: () => void
}

export function createConfigReloader<Config extends Reloadable>(deps: ReloaderDeps<Config>): ConfigReloader {
  const results = deps.metrics.counter('brokkr_config_reloads_total', 'Number of reloads of the configuration by result', ['result'])
  let last: Promise<unknown> = Promise.resolve()
  const run = async (input: Parameters<ConfigReloader['reload']>[0]): Promise<readonly ShownChange[]> => {
    try {
      const changes = await reloadOnce(deps, input)
      results.inc({ result: changes.length === 0 ? 'unchanged' : 'changed' })
      return changes
    } catch (error) {
      results.inc({ result: 'failed' })
      throw error
    }
  }
  return {
    reload: (input) => {
      // One at a time, so that each is compared with the settings that the one before left.
      const next = last.then(() => run(input))
      last = next.catch(() => undefined)
      return next
    },
  }
}

async function reloadOnce<Config extends Reloadable>(
  { sql, log, live, readSettings, wakeFeed }: ReloaderDeps<Config>,
  { actor, othersToo }: Parameters<ConfigReloader['reload']>[0],
): Promise<readonly ShownChange[]> {
  const next = await readSettings().catch((error: unknown) => refuseSettings({ sql, log }, actor, error))
  const changes = live.compare(next).map(toShownChange)
  await sql.begin(async (tx) => {
    if (othersToo) await configReloads.insert(tx, { id: uuid7(), requested_by: actor.kind })
    if (changes.length === 0) return
    const entry = { actor, action: 'config.reloaded', resource: { type: 'config', id: null }, details: { changes } }
    await recordAuditEntry(tx, entry)
  })
  live.apply(next)
  log.level = live.value.log.level
  if (othersToo) wakeFeed()
  if (changes.length > 0) log.info('configuration reloaded', { settings: changes.map(({ key }) => key) })
  return changes
}

/** Values as text; a setting that needs a restart says so. */
function toShownChange({ key, oldValue, newValue, hot }: ConfigChange): ShownChange {
  return { key, old_value: toText(oldValue), new_value: hot ? toText(newValue) : `${toText(newValue)} (restart needed)` }
}

const toText = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))

async function refuseSettings({ sql, log }: { sql: Sql; log: Log }, actor: Actor, error: unknown): Promise<never> {
  if (!(error instanceof ConfigError)) throw error
  const errors = await Promise.all(error.problems.map(locateProblem))
  log.error('configuration not reloaded', { problems: errors.map(({ path, line }) => (line === null ? path : `${path} in line ${line}`)) })
  await recordAuditEntry(sql, {
    actor,
    action: 'config.reload_failed',
    resource: { type: 'config', id: null },
    details: { settings: errors.map(({ path }) => path) },
  })
  throw new ApiError('config_invalid', error.message, { details: { errors }, cause: error })
}

async function locateProblem({ path, where, problem }: ConfigError['problems'][number]) {
  const file = where.startsWith('file ') ? where.slice('file '.length) : null
  const text = file === null ? null : await readFile(file, 'utf8').catch(() => null)
  return { path, message: problem, line: file === null || text === null ? null : findKeyLine(file, text, path) }
}
