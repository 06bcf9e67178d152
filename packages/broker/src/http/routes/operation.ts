// What an operator looks at: settings and background tasks.
import { mask, Secret } from '@brokkr/runtime/secret.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as taskLeases from '../../store/task-leases.ts'
import type { Handler } from '../handler.ts'

/** Not a secret to the machine, and still nobody's to read. */
const masked: ReadonlySet<string> = new Set(['broker.pak_hash'])

export const handleGetConfig: Handler<'getConfig', BrokerDeps> = async ({ settings }) =>
  Object.fromEntries(
    [...settings.flat].map(([key, value]) => [
      key,
      { value: shown(key, value), source: settings.sources.get(key) ?? 'default', reloadable: settings.hot.has(key) },
    ]),
  )

function shown(key: string, value: unknown): unknown {
  if (value instanceof Secret || (masked.has(key) && value !== null)) return mask
  return Array.isArray(value) ? value.map((item: unknown) => shown(key, item)) : value
}

export const handleListTasks: Handler<'listTasks', BrokerDeps> = async ({ sql, tasks }) => {
  const runs = new Map((await taskLeases.list(sql, {})).map((row) => [row.name, row]))
  const never = { last_run_at: null, last_result: null, last_error: null, lease_owner: null }
  return tasks().map(({ name, everyMs }) => ({ ...never, ...runs.get(name), name, every_seconds: everyMs() / 1000 }))
}
