// Registrations: which agents accept stacks of which generators. They isolate generators from each other.
import { Registration } from '@brokkr/contract/agents/agent.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../../schema/sql-fragments.ts'

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

const defineList = (name: string, owner: 'agent_id' | 'generator_id') =>
  rows(
    `registrations.${name}`,
    Registration,
    (p: Slots<TimeKey & { owner_id: string; limit: number }>) => `
  select id, agent_id, generator_id, registered_at from agent_generator_registrations
  where ${owner} = ${p.owner_id}::uuid and (registered_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
  order by registered_at desc, id desc limit ${p.limit}::int`,
  )
export const ofAgent = defineList('ofAgent', 'agent_id')
export const ofGenerator = defineList('ofGenerator', 'generator_id')

export const remove = count(
  'registrations.remove',
  (p: Slots<{ agent_id: string; generator_id: string }>) => `
  delete from agent_generator_registrations where agent_id = ${p.agent_id}::uuid and generator_id = ${p.generator_id}::uuid`,
)

/** Locks rows in id order, because deletions of agents and of generators can touch the same rows. */
const removeAll = (name: string, owner: string) =>
  count(
    `registrations.${name}`,
    (p: Slots<{ owner_id: string }>) => `
  with held as materialized (select id from agent_generator_registrations where ${owner} = ${p.owner_id}::uuid order by id for update)
  delete from agent_generator_registrations r using held where r.id = held.id`,
  )
export const removeAllOfGenerator = removeAll('removeAllOfGenerator', 'generator_id')
export const removeAllOfAgent = removeAll('removeAllOfAgent', 'agent_id')
