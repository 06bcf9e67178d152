// Admin PAKs: list, create, rotate, revoke.

import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import { createAdminPak } from '../actions/create-admin-pak.ts'
import { revokeAdminPak } from '../actions/revoke-admin-pak.ts'
import { rotateAdminPak } from '../actions/rotate-admin-pak.ts'
import * as adminRole from '../store/admin-role.ts'

const listMax = 10_000

export const handleList: Handler<'listAdminPaks', BrokerDeps> = ({ sql }) => adminRole.list(sql, { limit: listMax })

export const handleCreate: Handler<'createAdminPak', BrokerDeps> = (deps, request) =>
  createAdminPak(deps, { ...request.body, actor: toActor(request) })

export const handleRotate: Handler<'rotateAdminPak', BrokerDeps> = (deps, request) =>
  rotateAdminPak(deps, { id: request.params.id, actor: toActor(request) })

export const handleRevoke: Handler<'revokeAdminPak', BrokerDeps> = (deps, request) =>
  revokeAdminPak(deps, { id: request.params.id, actor: toActor(request) })
