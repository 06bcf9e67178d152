// The fleet and the overview.
import { ApiError } from '@brokkr/contract/error.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentEvents from '../../store/agent-events.ts'
import * as fleet from '../../store/fleet.ts'
import type { Handler } from '../handler.ts'
import { byAgentName, newestFirst } from '../list-order.ts'
import { page } from '../paging.ts'
import { eventsAt } from './agent-events.ts'

const eventsMax = 20

export const handleList: Handler<'listFleet', BrokerDeps> = ({ sql }, request) =>
  page(request, byAgentName, {
    name: 'listFleet',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) =>
      fleet.list(sql, { generator_id: request.query.pak_id ?? null, after_name, after_id, limit }),
  })

export const handleGet: Handler<'getAgentFleetStatus', BrokerDeps> = async ({ sql }, { params }) => {
  const record = await fleet.get(sql, { id: params.id })
  if (record === null) throw new ApiError('agent_not_found', 'no such agent')
  const [after_at, after_id] = newestFirst.first
  const places = await agentEvents.listOfAgent(sql, { agent_id: params.id, with_deleted: false, after_at, after_id, limit: eventsMax })
  return { record, recent_events: await eventsAt({ sql }, places) }
}

export const handleOverview: Handler<'getOverview', BrokerDeps> = ({ readOverview }) => readOverview()
