// The kept counts of stacks against a recount from the pairs, after histories one by one and at once.
import { hash, randomBytes } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { createAgent, deleteAgent } from '../../agents/actions/agents.ts'
import { addAgentLabel, removeAgentLabel } from '../../agents/actions/label-agent.ts'
import { recordHeartbeat } from '../../agents/actions/record-heartbeat.ts'
import { systemActor } from '../../audit/rules.ts'
import { rollbackStack } from '../../deployments/actions/rollback-stack.ts'
import { submitDeploymentObject } from '../../deployments/actions/submit-deployment-object.ts'
import { createGenerator } from '../../generators/actions/generators.ts'
import { recordHealth } from '../../health/actions.ts'
import { recordAgentEvents } from '../../reports/actions/agent-events.ts'
import * as agentStackStatus from '../../reports/store/agent-stack-status.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { createSeal } from '../../seal.ts'
import { freshSubscriptions, type SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { holdStack, releaseStack } from '../actions/holds.ts'
import { addStackLabel, removeStackLabel } from '../actions/label-stack.ts'
import { createOverviewReader } from '../actions/read-overview.ts'
import { createStack, deleteStack } from '../actions/stacks.ts'
import * as stackSummary from './stack-summary.ts'
import * as stacks from './stacks.ts'

const actor = { ...systemActor, kind: 'admin' as const }
let sql: Database
let deps: {
  sql: Database
  seal: ReturnType<typeof createSeal>
  subscriptionCache: SubscriptionCache
  wakeFeed: () => void
  clock: typeof systemClock
}
let generatorId: string
beforeAll(async () => {
  sql = openDatabase({ url: (await database()).url, schema: 'public', poolSize: 12 })
  deps = {
    sql,
    seal: createSeal([randomBytes(32)]),
    subscriptionCache: freshSubscriptions(),
    wakeFeed: () => undefined,
    clock: systemClock,
  }
  generatorId = (await createGenerator(deps, { name: 'g', description: null, actor })).generator.id
  return () => sql.close()
})

let count = 0
const unique = (word: string) => `${word}-${(count += 1)}`
const exec = (text: string, values: unknown[] = []) => sql.query({ name: hash('sha256', text).slice(0, 32), text, values })

interface World {
  readonly label: string
  readonly agents: string[]
  readonly stacks: string[]
  /** Newest revision of each stack, whether or not it is the head by now. */
  readonly heads: Map<string, string>
  n: number
}
async function makeWorld(agents: number, stackCount: number): Promise<World> {
  const world: World = { label: unique('l'), agents: [], stacks: [], heads: new Map(), n: 0 }
  for (let n = 0; n < agents; n += 1) {
    const name = unique('a')
    world.agents.push(
      (await createAgent(deps, { name, cluster_name: name, generator_ids: [generatorId], labels: [world.label], actor })).agent.id,
    )
  }
  for (let n = 0; n < stackCount; n += 1) {
    const input = {
      name: unique('s'),
      description: null,
      generatorId,
      labels: n % 2 === 0 ? [world.label] : [],
      annotations: {},
      drift: 'heal',
      actor,
    }
    world.stacks.push((await createStack(deps, input)).id)
  }
  return world
}

const step = fc.record({
  what: fc.constantFrom(
    'submit',
    'marker',
    'hold',
    'release',
    'rollBackHeld',
    'report',
    'report',
    'reportAll',
    'health',
    'silence',
    'heartbeat',
    'labelAgent',
    'labelStack',
    'removed',
    'deleteStack',
    'deleteAgent',
  ),
  agent: fc.nat(2),
  stack: fc.nat(3),
  word: fc.nat(4),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Does it, or finds that the thing is gone; whatever else goes wrong is a failure. */
async function act(world: World, { what, agent: a, stack: s, word }: Step): Promise<void> {
  const [agentId, stackId] = [world.agents[a % world.agents.length]!, world.stacks[s % world.stacks.length]!]
  try {
    await acts[what]!({ world, agentId, stackId, word })
  } catch (error) {
    const code = (error as { code?: string }).code ?? ''
    const gone = [
      'stack_not_found',
      'agent_not_found',
      'foreign_key_violation',
      'unique_violation',
      'hold_sequence_invalid',
      'hold_not_found',
      'deployment_object_not_found',
      'rollback_to_marker',
      'agent_label_not_found',
      'stack_label_not_found',
    ]
    if (!gone.includes(code) && code !== '23505') throw error
  }
}

type Acted = { world: World; agentId: string; stackId: string; word: number }
const submit = async ({ world, stackId }: Acted, isDeletionMarker: boolean) => {
  const object = await submitDeploymentObject(deps, {
    stackId,
    yamlContent: 'a: 1',
    isDeletionMarker,
    expectedSequenceId: undefined,
    actor,
  })
  world.heads.set(stackId, object.id)
}
const report = async ({ world, agentId, word }: Acted, stackIds: readonly string[]) => {
  const phase = ['applied', 'failed', 'held', 'pending', 'removed'][word]!
  const code = word === 0 && stackIds.length % 2 === 1 ? 'drifted' : null
  const reports = stackIds.map((stack_id) => ({
    stack_id,
    rev: 1_000_000,
    object_id: world.heads.get(stack_id) ?? null,
    phase,
    code,
    attempts: 1,
  }))
  world.n += 1
  await agentStackStatus.record(sql, { agent_id: agentId, session: 1, n: world.n, reports: JSON.stringify(reports) })
}
const acts: Record<string, (acted: Acted) => Promise<unknown>> = {
  submit: (acted) => submit(acted, false),
  marker: (acted) => submit(acted, true),
  hold: ({ stackId }) => holdStack(deps, { stackId, sequenceId: null, reason: 'r', actor }),
  release: ({ stackId }) => releaseStack(deps, { stackId, reason: null, actor }),
  rollBackHeld: async ({ world, stackId }) => {
    const source = { objectId: world.heads.get(stackId) ?? generatorId, sequenceId: null, expectedSequenceId: null }
    const object = await rollbackStack(deps, { stackId, ...source, reason: null, isHeld: true, actor })
    world.heads.set(stackId, object.id)
  },
  report: (acted) => report(acted, [acted.stackId]),
  reportAll: (acted) => report(acted, acted.world.stacks),
  health: async ({ world, agentId, word }) => {
    const status = ['healthy', 'degraded', 'failing', 'unknown'][word % 4]!
    const checked_at = new Date().toISOString()
    const reports = [...world.heads.values()].map((id) => ({ id, status, checked_at }))
    await recordHealth(deps, { agentId, reports: reports as never, actor })
  },
  // As the task does it: whoever is silent already stays as it is.
  silence: ({ agentId }) =>
    exec(
      `with connected as materialized (select id from agents where id = $1 and connection_state <> 'disconnected' for update)
       update agents a set connection_state = 'disconnected' from connected c where a.id = c.id`,
      [agentId],
    ),
  heartbeat: ({ agentId }) => recordHeartbeat(deps, { agentId, heartbeat: {} }),
  labelAgent: ({ world, agentId, word }) =>
    (word % 2 === 0 ? addAgentLabel : removeAgentLabel)(deps, { agentId, label: world.label, actor }),
  labelStack: ({ world, stackId, word }) =>
    (word % 2 === 0 ? addStackLabel : removeStackLabel)(deps, { stackId, label: world.label, actor }),
  removed: async ({ world, agentId }) => {
    const event = { agent_id: agentId, event_type: 'DELETED', status: 'SUCCESS' }
    const events = [...world.heads.values()].map((deployment_object_id) => ({ ...event, id: uuid7(), deployment_object_id }))
    if (events.length > 0) await recordAgentEvents(deps, { agentId, events: events as never, actor })
  },
  deleteStack: ({ stackId, word }) => (word === 0 ? deleteStack(deps, { stackId, actor }) : Promise.resolve()),
  deleteAgent: ({ agentId, word }) => (word === 0 ? deleteAgent(deps, { agentId, actor }) : Promise.resolve()),
}

test('stack summaries equal a recount after random operations', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const world = await makeWorld(3, 4)
      for (const one of steps) await act(world, one)
      expect(await stackSummary.differences(sql, { limit: 10 })).toEqual([])
    }),
    { numRuns: Math.min(size('Q7.cases') ?? 60, 1000) / 4 },
  )
})

test('summaries equal a recount after concurrent changes, without lock conflicts', async () => {
  const world = await makeWorld(3, 4)
  const histories = fc.sample(fc.array(step, { minLength: 40, maxLength: 40 }), 8)
  await Promise.all(
    histories.map(async (steps) => {
      for (const one of steps) if (one.what !== 'deleteStack' && one.what !== 'deleteAgent') await act(world, one)
    }),
  )
  expect(await stackSummary.differences(sql, { limit: 10 })).toEqual([])
})

test('summary verification corrects counts that were changed by SQL', async () => {
  const world = await makeWorld(1, 1)
  await exec('alter table stack_summary disable trigger user')
  await exec('update stack_summary set total = 7, healthy = 3 where stack_id = $1', [world.stacks[0]])
  expect(await stackSummary.differences(sql, { limit: 10 })).toHaveLength(1)
  await stackSummary.mend(sql, {})
  expect(await stackSummary.differences(sql, { limit: 10 })).toEqual([])
})

test('the stack list shows and filters by counts, and the overview sums them', async () => {
  await exec(
    `update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), deleted_at = now(),
       held_object_id = null, held_sequence = null where deleted_at is null`,
  )
  await exec(`delete from agent_targets`)
  await exec(`update agents set deleted_at = now() where deleted_at is null`)
  const world = await makeWorld(4, 1)
  const [healthy, failing, silent] = world.agents as [string, string, string, string]
  const stackId = world.stacks[0]!
  await submit({ world, agentId: '', stackId, word: 0 }, false)
  for (const agentId of [healthy, failing, silent]) await recordHeartbeat(deps, { agentId, heartbeat: {} })
  const tell = async (agentId: string, word: number, health: number) => {
    await report({ world, agentId, stackId, word }, [stackId])
    await acts['health']!({ world, agentId, stackId, word: health })
  }
  await tell(healthy, 0, 0)
  await tell(failing, 1, 2)
  await tell(silent, 0, 0)
  await acts['silence']!({ world, agentId: silent, stackId, word: 0 })

  const everything = {
    name: null,
    search: null,
    generator_id: null,
    labels: [],
    keys: [],
    values: [],
    after_name: '',
    after_id: generatorId.replaceAll(/[^-]/g, '0'),
    limit: 10,
  }
  const find = (filter: Partial<stacks.CountFilter>) =>
    stacks.countedList(sql, { ...everything, health: null, drifted: null, held: null, ...filter })
  expect(await find({})).toMatchObject([
    {
      id: stackId,
      desired_sequence_id: 1,
      agents_total: 4,
      agents_current: 2,
      agents_failed: 1,
      health: 'failing',
      drifted: 2,
      held: false,
    },
  ])
  expect((await find({}))[0]?.oldest_seen_at).not.toBeNull()
  expect(await find({ health: 'healthy' })).toEqual([])
  expect(await find({ health: 'failing', drifted: true, held: false })).toHaveLength(1)
  expect(await find({ held: true })).toEqual([])
  expect(await createOverviewReader(deps)()).toMatchObject({
    fleet: { total: 4, current: 1, behind: 1, silent: 1, never: 1 },
    stacks: { total: 1, healthy: 0, degraded: 0, failing: 1, unknown: 0, drifted: 1 },
    decisions: { prune_held: 0 },
  })
})
