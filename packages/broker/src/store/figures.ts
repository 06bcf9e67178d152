// Counts for the metrics page.
import { z } from 'zod'
import { one, rows, type Slots } from './sql.ts'

export const counts = one(
  'figures.counts',
  z.object({ active_agents: z.int(), stacks: z.int(), deployment_objects: z.int() }),
  () => `
  select (select count(*) from agents where deleted_at is null and status = 'ACTIVE') as active_agents,
    (select count(*) from stacks where deleted_at is null) as stacks,
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
