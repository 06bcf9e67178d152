// Fleet list, fleet status of one agent, and the overview.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../../deps.ts'
import { byAgentName, newestFirst } from '../../http/response/list-order.ts'
import { page } from '../../http/response/paging.ts'
import type { Handler } from '../../http/server/handler.ts'
import { readAgentEvents } from '../../reports/actions/read-agent-events.ts'
import * as agentEvents from '../../reports/store/agent-events.ts'
import * as fleet from '../store/fleet.ts'

const eventsMax = 20

export const handleList: Handler<'listFleet', BrokerDeps> = ({ sql }, request) =>
  page(request, byAgentName, {
    name: 'listFleet',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) =>
      (request.query.include === 'agent' ? fleet.listWithAgent : fleet.list)(sql, {
        generator_id: request.query.pak_id ?? null,
        after_name,
        after_id,
        limit,
      }),
  })

export const handleGet: Handler<'getAgentFleetStatus', BrokerDeps> = async ({ sql }, { params }) => {
  const record = await fleet.get(sql, { id: params.id })
  if (record === null) throw new ApiError('agent_not_found', 'no such agent')
  const [after_at, after_id] = newestFirst.first
  const entries = await agentEvents.listOfAgent(sql, { agent_id: params.id, with_deleted: false, after_at, after_id, limit: eventsMax })
  return { record, recent_events: await readAgentEvents({ sql }, entries) }
}

export const handleOverview: Handler<'getOverview', BrokerDeps> = ({ readOverview }) => readOverview()
