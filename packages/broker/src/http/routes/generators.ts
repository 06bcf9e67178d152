// Generators and the registration of agents with them.
import { ApiError } from '@brokkr/contract/error.ts'
import { createGenerator } from '../../actions/create-generator.ts'
import { deleteGenerator } from '../../actions/delete-generator.ts'
import { deregisterAgent } from '../../actions/deregister-agent.ts'
import { registerAgent } from '../../actions/register-agent.ts'
import { rotateGeneratorPak } from '../../actions/rotate-generator-pak.ts'
import { updateGenerator } from '../../actions/update-generator.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as generators from '../../store/generators.ts'
import * as registrations from '../../store/registrations.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 10_000

export const handleListGenerators: Handler<'listGenerators', BrokerDeps> = ({ sql }, { query }) =>
  generators.list(sql, { name: query.name ?? null, limit: listMax })

export const handleCreateGenerator: Handler<'createGenerator', BrokerDeps> = (deps, request) =>
  createGenerator(deps, { name: request.body.name, description: request.body.description, by: actorOf(request) })

export const handleGet: Handler<'getGenerator', BrokerDeps> = async ({ sql }, { params }) => {
  const generator = await generators.get(sql, { id: params.id })
  if (generator === null) throw new ApiError('generator_not_found', 'no such generator')
  return generator
}

export const handleUpdate: Handler<'updateGenerator', BrokerDeps> = async (deps, request) => {
  const { id, name, description, is_active, is_system } = request.body
  const generatorId = request.params.id
  const updated = await updateGenerator(deps, { generatorId, id, name, description, is_active, is_system, by: actorOf(request) })
  deps.dropCredential('generator', generatorId)
  return updated
}

export const handleDelete: Handler<'deleteGenerator', BrokerDeps> = async (deps, request) => {
  await deleteGenerator(deps, { generatorId: request.params.id, by: actorOf(request) })
  deps.dropCredential('generator', request.params.id)
}

export const handleRotatePak: Handler<'rotateGeneratorPak', BrokerDeps> = async (deps, request) => {
  const rotated = await rotateGeneratorPak(deps, { generatorId: request.params.id, by: actorOf(request) })
  deps.dropCredential('generator', request.params.id)
  return rotated
}

export const handleDeregister: Handler<'deregisterAgent', BrokerDeps> = (deps, request) =>
  deregisterAgent(deps, { generatorId: request.params.id, agentId: request.body.agent_id ?? null, by: actorOf(request) })

export const handleRegisteredAgents: Handler<'listGeneratorRegisteredAgents', BrokerDeps> = ({ sql }, { params }) =>
  registrations.ofGenerator(sql, { generator_id: params.id, limit: listMax })

export const handleListPaks: Handler<'listPaks', BrokerDeps> = ({ sql }) => generators.names(sql, { limit: listMax })

export const handleRegister: Handler<'registerAgent', BrokerDeps> = (deps, request) =>
  registerAgent(deps, {
    generatorId: request.params.id,
    agentId: request.body.agent_id ?? null,
    selfRegistration: deps.config.broker.agent_self_registration,
    by: actorOf(request),
  })
