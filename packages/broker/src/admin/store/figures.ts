// Counts for the metrics page.
import { one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export const counts = one(
  'figures.counts',
  z.object({ active_agents: z.int(), stacks: z.int(), stack_holds: z.int(), open_plans: z.int(), deployment_objects: z.int() }),
  () => `
  select (select count(*) from agents where deleted_at is null and status = 'ACTIVE') as active_agents,
    (select count(*) from stacks where deleted_at is null) as stacks,
    (select count(*) from holds) as stack_holds,
    (select count(*) from plans where expires_at > now()) as open_plans,
    (select count(*) from deployment_objects where deleted_at is null) as deployment_objects`,
)

export const heartbeatAges = rows(
  'figures.heartbeatAges',
  z.object({ agent_id: z.string(), agent_name: z.string(), age_seconds: z.number() }),
  (p: Slots<{ limit: number }>) => `
  select a.id as agent_id, a.name as agent_name, extract(epoch from now() - l.last_heartbeat)::float8 as age_seconds
  from agents a join agent_liveness l on l.agent_id = a.id and l.last_heartbeat is not null
  where a.deleted_at is null order by a.name, a.id limit ${p.limit}::int`,
)
