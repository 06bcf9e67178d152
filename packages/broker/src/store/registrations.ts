// Which agent takes stacks of which generator: the gate between tenants.
import { Registration } from '@brokkr/contract/agent.ts'
import { z } from 'zod'
import { count, maybe, one, rows, type Slots, type TimeKey } from './sql.ts'

export const insert = one(
  'registrations.insert',
  Registration,
  (p: Slots<{ id: string; agent_id: string; generator_id: string }>) => `
  insert into agent_generator_registrations (id, agent_id, generator_id) values (${p.id}, ${p.agent_id}, ${p.generator_id})
  returning id, agent_id, generator_id, registered_at`,
)

export const insertMany = count(
  'registrations.insertMany',
  (p: Slots<{ agent_id: string; generator_ids: string[] }>) => `
  insert into agent_generator_registrations (id, agent_id, generator_id)
  select gen_random_uuid(), ${p.agent_id}::uuid, generator_id from unnest(${p.generator_ids}::uuid[]) as g (generator_id)
  on conflict do nothing`,
)

export const exists = maybe(
  'registrations.exists',
  z.object({ id: z.string() }),
  (p: Slots<{ agent_id: string; generator_id: string }>) => `
  select id from agent_generator_registrations where agent_id = ${p.agent_id}::uuid and generator_id = ${p.generator_id}::uuid`,
)

export const countOf = one(
  'registrations.countOf',
  z.object({ held: z.int() }),
  (p: Slots<{ agent_id: string }>) => `
  select count(*) as held from agent_generator_registrations where agent_id = ${p.agent_id}::uuid`,
)

const newest = (name: string, owner: 'agent_id' | 'generator_id') =>
  rows(
    `registrations.${name}`,
    Registration,
    (p: Slots<TimeKey & { owner_id: string; limit: number }>) => `
  select id, agent_id, generator_id, registered_at from agent_generator_registrations
  where ${owner} = ${p.owner_id}::uuid and (registered_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
  order by registered_at desc, id desc limit ${p.limit}::int`,
  )
export const ofAgent = newest('ofAgent', 'agent_id')
export const ofGenerator = newest('ofGenerator', 'generator_id')

export const remove = count(
  'registrations.remove',
  (p: Slots<{ agent_id: string; generator_id: string }>) => `
  delete from agent_generator_registrations where agent_id = ${p.agent_id}::uuid and generator_id = ${p.generator_id}::uuid`,
)

export const removeAllOf = count(
  'registrations.removeAllOf',
  (p: Slots<{ generator_id: string }>) => `delete from agent_generator_registrations where generator_id = ${p.generator_id}::uuid`,
)
