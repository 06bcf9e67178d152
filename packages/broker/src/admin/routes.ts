// Routes of admins: admin PAKs, settings and their reload, background tasks.
import { mask, Secret } from '@brokkr/runtime/secret.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import type { Handler } from '../http/server/handler.ts'
import * as taskLeases from '../tasks/store.ts'
import { createAdminPak, revokeAdminPak, rotateAdminPak } from './actions/admin-paks.ts'
import * as adminRole from './store/admin-role.ts'

const listMax = 10_000

export const handleList: Handler<'listAdminPaks', BrokerDeps> = ({ sql }) => adminRole.list(sql, { limit: listMax })

export const handleCreate: Handler<'createAdminPak', BrokerDeps> = (deps, request) =>
  createAdminPak(deps, { ...request.body, actor: toActor(request) })

export const handleRotate: Handler<'rotateAdminPak', BrokerDeps> = (deps, request) =>
  rotateAdminPak(deps, { id: request.params.id, actor: toActor(request) })

export const handleRevoke: Handler<'revokeAdminPak', BrokerDeps> = (deps, request) =>
  revokeAdminPak(deps, { id: request.params.id, actor: toActor(request) })

/** Settings that are not of type Secret but are masked in responses. */
const maskedSettings: ReadonlySet<string> = new Set(['broker.pak_hash'])

export const handleGetConfig: Handler<'getConfig', BrokerDeps> = async ({ liveConfig }) => {
  const { flat, sources, hot } = liveConfig.current()
  return Object.fromEntries(
    [...flat].map(([key, value]) => [
      key,
      { value: toDisplayValue(key, value), source: sources.get(key) ?? 'default', reloadable: hot.has(key) },
    ]),
  )
}

export const handleReload: Handler<'reloadConfig', BrokerDeps> = async ({ reloader, clock }, request) => {
  const changes = await reloader.reload({ actor: toActor(request), othersToo: true })
  const message = changes.length === 0 ? 'no setting changed' : `${changes.length} settings changed`
  return { reloaded_at: new Date(clock.now()).toISOString().replace('Z', '000Z'), changes: [...changes], success: true, message }
}

function toDisplayValue(key: string, value: unknown): unknown {
  if (value instanceof Secret || (maskedSettings.has(key) && value !== null)) return mask
  return Array.isArray(value) ? value.map((item: unknown) => toDisplayValue(key, item)) : value
}

export const handleListTasks: Handler<'listTasks', BrokerDeps> = async ({ sql, tasks }) => {
  const runs = new Map((await taskLeases.list(sql, {})).map((row) => [row.name, row]))
  const neverRan = { last_run_at: null, last_result: null, last_error: null, lease_owner: null }
  return tasks().map(({ name, everyMs }) => ({ ...neverRan, ...runs.get(name), name, every_seconds: everyMs() / 1000 }))
}
