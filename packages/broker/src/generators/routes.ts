// Generators and the registration of agents with them.
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { includesDeleted } from '../http/request/query.ts'
import { parsePrecondition, setEtag, withTag } from '../http/response/etag.ts'
import { byName, newestRegistered } from '../http/response/list-order.ts'
import { estimateRowBytes, page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { createGenerator, deleteGenerator, rotateGeneratorPak, updateGenerator } from './actions/generators.ts'
import { deregisterAgent, registerAgent } from './actions/registrations.ts'
import * as generators from './store/generators.ts'
import * as registrations from './store/registrations.ts'

export const handleListGenerators: Handler<'listGenerators', BrokerDeps> = ({ sql }, request) => {
  const list = includesDeleted(request) ? generators.listWithDeleted : generators.list
  return page(request, byName, {
    name: 'listGenerators',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) => list(sql, { name: request.query.name ?? null, after_name, after_id, limit }),
    bytesOf: estimateRowBytes,
  })
}

export const handleCreateGenerator: Handler<'createGenerator', BrokerDeps> = (deps, request) =>
  createGenerator(deps, { name: request.body.name, description: request.body.description, actor: toActor(request) })

export const handleGet: Handler<'getGenerator', BrokerDeps> = async (_, request) => withTag(request, request.found as Generator)

export const handleUpdate: Handler<'updateGenerator', BrokerDeps> = async (deps, request) => {
  const { id, name, description, is_active, is_system } = request.body
  const generatorId = request.params.id
  const change = {
    generatorId,
    id,
    name,
    description,
    is_active,
    is_system,
    precondition: parsePrecondition(request),
    actor: toActor(request),
  }
  const generator = await updateGenerator(deps, change)
  deps.dropCredential('generator', generatorId)
  return setEtag(request, generator)
}

export const handleDelete: Handler<'deleteGenerator', BrokerDeps> = async (deps, request) => {
  await deleteGenerator(deps, { generatorId: request.params.id, actor: toActor(request) })
  deps.dropCredential('generator', request.params.id)
}

export const handleRotatePak: Handler<'rotateGeneratorPak', BrokerDeps> = async (deps, request) => {
  const response = await rotateGeneratorPak(deps, { generatorId: request.params.id, actor: toActor(request) })
  deps.dropCredential('generator', request.params.id)
  return response
}

export const handleDeregister: Handler<'deregisterAgent', BrokerDeps> = (deps, request) =>
  deregisterAgent(deps, { generatorId: request.params.id, agentId: request.body.agent_id ?? null, actor: toActor(request) })

export const handleRegisteredAgents: Handler<'listGeneratorRegisteredAgents', BrokerDeps> = ({ sql }, request) =>
  page(request, newestRegistered, {
    name: 'listGeneratorRegisteredAgents',
    cap: 10_000,
    read: ({ after: [after_at, after_id], limit }) =>
      registrations.ofGenerator(sql, { owner_id: request.params.id, after_at, after_id, limit }),
  })

export const handleListPaks: Handler<'listPaks', BrokerDeps> = ({ sql }, request) =>
  page(request, byName, {
    name: 'listPaks',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) => generators.names(sql, { after_name, after_id, limit }),
  })

export const handleRegister: Handler<'registerAgent', BrokerDeps> = (deps, request) =>
  registerAgent(deps, {
    generatorId: request.params.id,
    agentId: request.body.agent_id ?? null,
    selfRegistration: deps.config.broker.agent_self_registration,
    actor: toActor(request),
  })
