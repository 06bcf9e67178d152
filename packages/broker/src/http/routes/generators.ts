// Generators and the registration of agents with them.
import { createGenerator } from '../../actions/create-generator.ts'
import { registerAgent } from '../../actions/register-agent.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as generators from '../../store/generators.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 10_000

export const handleListGenerators: Handler<'listGenerators', BrokerDeps> = ({ sql }, { query }) =>
  generators.list(sql, { name: query.name ?? null, limit: listMax })

export const handleCreateGenerator: Handler<'createGenerator', BrokerDeps> = (deps, request) =>
  createGenerator(deps, { name: request.body.name, description: request.body.description, by: actorOf(request) })

export const handleRegister: Handler<'registerAgent', BrokerDeps> = (deps, request) =>
  registerAgent(deps, {
    generatorId: request.params.id,
    agentId: request.body.agent_id ?? null,
    selfRegistration: deps.config.broker.agent_self_registration,
    by: actorOf(request),
  })
