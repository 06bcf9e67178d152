// Changes of targets at the same moment: which of them wait for each other, and that none is lost where they do not.
// long: crosses hundreds of changes
import { randomBytes } from 'node:crypto'
import { type Database, openDatabase, type Sql } from '@brokkr/postgres'
import { startTestBroker } from '@brokkr/testing/broker.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { createAgent, deleteAgent } from '../../agents/actions/agents.ts'
import { addAgentAnnotation, removeAgentAnnotation } from '../../agents/actions/annotate-agent.ts'
import { addAgentLabel, removeAgentLabel } from '../../agents/actions/label-agent.ts'
import { recordHeartbeat } from '../../agents/actions/record-heartbeat.ts'
import { systemActor } from '../../audit/rules.ts'
import { bootstrap } from '../../bootstrap.ts'
import { createGenerator, deleteGenerator } from '../../generators/actions/generators.ts'
import { deregisterAgent, registerAgent } from '../../generators/actions/registrations.ts'
import * as agentStackStatus from '../../reports/store/agent-stack-status.ts'
import { createSeal } from '../../seal.ts'
import { addStackAnnotation, removeStackAnnotation } from '../../stacks/actions/annotate-stack.ts'
import { addStackLabel, removeStackLabel } from '../../stacks/actions/label-stack.ts'
import { createStack, deleteStack } from '../../stacks/actions/stacks.ts'
import * as stackSummary from '../../stacks/store/stack-summary.ts'
import { freshSubscriptions } from '../../webhooks/subscriptions/subscription-cache.ts'
import { addTarget, removeTarget } from '../actions.ts'
import * as agentTargets from '../store/agent-targets.ts'

const actor = { ...systemActor, kind: 'admin' as const }
const seal = createSeal([randomBytes(32)])
let url: string
let sql: Database
const depsOn = (on: Sql) => ({ sql: on, seal, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined })
let deps: ReturnType<typeof depsOn>
beforeAll(async () => {
  url = (await database()).url
  sql = openDatabase({ url, schema: 'public', poolSize: 12 })
  deps = depsOn(sql)
  await bootstrap({ sql }, { pak_hash: 'a'.repeat(64), admin_pak_file: '/nowhere', allow_sample_pak: false })
  return () => sql.close()
})

let count = 0
const unique = (word: string) => `${word}-${(count += 1)}`
const makeGenerator = async () => (await createGenerator(deps, { name: unique('g'), description: null, actor })).generator.id
const makeAgent = async (generatorIds: string[], labels: string[] = [], on = deps) => {
  const name = unique('a')
  return (await createAgent(on, { name, cluster_name: name, generator_ids: generatorIds, labels, actor })).agent.id
}
const makeStack = async (generatorId: string, labels: string[] = []) =>
  (await createStack(deps, { name: unique('s'), description: null, generatorId, labels, annotations: {}, drift: 'heal', actor })).id
const targetsOf = async (agentId: string) => (await agentTargets.countOfAgent(sql, { agent_id: agentId })).held

/** Runs `work` while the transaction of `change` has not committed. */
async function whileOpen(change: (on: ReturnType<typeof depsOn>) => Promise<unknown>, work: () => Promise<unknown>): Promise<void> {
  await sql.beginOuter(async (outer) => {
    await change(depsOn(outer))
    await work()
  })
}

test('agents do not wait for the retargeting of another agent', async () => {
  const generator = await makeGenerator()
  const stack = await makeStack(generator, ['fleet'])
  const [first, second] = [await makeAgent([generator]), await makeAgent([generator])]
  await whileOpen(
    (on) => addAgentLabel(on, { agentId: first, label: 'fleet', actor }),
    async () => {
      await addAgentLabel(deps, { agentId: second, label: 'fleet', actor })
      const third = await makeAgent([generator], ['fleet'])
      await deregisterAgent(deps, { generatorId: generator, agentId: third, actor })
      await makeAgent([generator])
      await makeStack(generator)
      await recordReport(second, stack, 'applied')
    },
  )
  expect([await targetsOf(first), await targetsOf(second)]).toEqual([1, 1])
})

test('stacks do not wait for the retargeting of another stack', async () => {
  const generator = await makeGenerator()
  const agent = await makeAgent([generator], ['tier'])
  const [first, second] = [await makeStack(generator), await makeStack(generator)]
  await whileOpen(
    (on) => addStackLabel(on, { stackId: first, label: 'tier', actor }),
    async () => {
      await addStackLabel(deps, { stackId: second, label: 'tier', actor })
      const third = await makeStack(generator, ['tier'])
      await deleteStack(deps, { stackId: third, actor })
      await makeAgent([generator])
    },
  )
  expect(await targetsOf(agent)).toBe(2)
})

test('unrelated writers do not wait for the deletion of a generator', async () => {
  const [doomed, other] = [await makeGenerator(), await makeGenerator()]
  for (let n = 0; n < 20; n += 1) await makeStack(doomed, ['x'])
  const agent = await makeAgent([doomed, other], ['x'])
  await whileOpen(
    (on) => deleteGenerator(on, { generatorId: doomed, actor }),
    async () => {
      await addAgentLabel(deps, { agentId: await makeAgent([other]), label: 'x', actor })
      await makeStack(other, ['x'])
    },
  )
  expect(await targetsOf(agent)).toBe(1)
})

test('deleting a generator takes as many statements for thirty stacks as for one', async () => {
  const countFor = async (stacks: number) => {
    const generator = await makeGenerator()
    for (let n = 0; n < stacks; n += 1) await makeStack(generator)
    const names: string[] = []
    const observe = { query: (name: string) => void names.push(name), wait: () => undefined }
    const counted = openDatabase({ url, schema: 'public', poolSize: 1, observe })
    await deleteGenerator({ ...deps, sql: counted }, { generatorId: generator, actor })
    await counted.close()
    return names.length
  }
  expect(await countFor(30)).toBe(await countFor(1))
})

let reported = 0
const recordReport = (agent_id: string, stack_id: string, phase: string) => {
  const reports = JSON.stringify([{ stack_id, rev: 1, object_id: null, phase, attempts: 1 }])
  return agentStackStatus.record(sql, { agent_id, session: 1, n: (reported += 1), reports })
}

const step = fc.record({
  what: fc.constantFrom(
    ...'labelAgent labelAgent labelStack labelStack annotateAgent annotateStack register target createAgent createStack'.split(' '),
    ...'deleteStack deleteAgent report silence heartbeat deleteGenerator'.split(' '),
  ),
  agent: fc.nat(99),
  stack: fc.nat(99),
  generator: fc.nat(99),
  label: fc.constantFrom('x', 'y'),
  isAdded: fc.boolean(),
})
interface World {
  readonly generators: string[]
  readonly agents: string[]
  readonly stacks: string[]
}
const acts: Record<
  string,
  (world: World, one: { agent: string; stack: string; generator: string; label: string; isAdded: boolean }) => Promise<unknown>
> = {
  labelAgent: (_, { agent: agentId, label, isAdded }) => (isAdded ? addAgentLabel : removeAgentLabel)(deps, { agentId, label, actor }),
  labelStack: (_, { stack: stackId, label, isAdded }) => (isAdded ? addStackLabel : removeStackLabel)(deps, { stackId, label, actor }),
  annotateAgent: (_, { agent: agentId, label: value, isAdded }) =>
    isAdded ? addAgentAnnotation(deps, { agentId, key: 'k', value, actor }) : removeAgentAnnotation(deps, { agentId, key: 'k', actor }),
  annotateStack: (_, { stack: stackId, label: value, isAdded }) =>
    isAdded ? addStackAnnotation(deps, { stackId, key: 'k', value, actor }) : removeStackAnnotation(deps, { stackId, key: 'k', actor }),
  register: (_, { agent: agentId, generator: generatorId, isAdded }) =>
    isAdded
      ? registerAgent(deps, { generatorId, agentId, selfRegistration: false, actor })
      : deregisterAgent(deps, { generatorId, agentId, actor }),
  target: (_, { agent, stack, isAdded }) =>
    (isAdded ? addTarget : removeTarget)(deps, { agentId: agent, stackId: stack, bodyAgentId: agent, actor }),
  createAgent: async ({ agents }, { generator, label }) => agents.push(await makeAgent([generator], [label])),
  createStack: async ({ stacks }, { generator, label }) => stacks.push(await makeStack(generator, [label])),
  deleteStack: (_, { stack: stackId, isAdded }) => (isAdded ? deleteStack(deps, { stackId, actor }) : Promise.resolve()),
  deleteAgent: (_, { agent: agentId, isAdded }) => (isAdded ? deleteAgent(deps, { agentId, actor }) : Promise.resolve()),
  report: (_, { agent, stack, label }) => recordReport(agent, stack, label === 'x' ? 'applied' : 'failed'),
  silence: async (_, { agent }) => {
    const client = await sql.connect()
    await client.query(
      `with held as (select id from agents where id = $1 and connection_state = 'connected' for update)
      update agents a set connection_state = 'disconnected' from held where a.id = held.id`,
      [agent],
    )
    await client.end()
  },
  heartbeat: (_, { agent: agentId }) => recordHeartbeat(deps, { agentId, heartbeat: {} }),
  deleteGenerator: async ({ generators }, { generator, isAdded }) => {
    if (isAdded && generators.length > 1)
      await deleteGenerator(deps, { generatorId: generators.splice(generators.indexOf(generator), 1)[0]!, actor })
  },
}
/** What a history may be refused for: something is gone, missing or there already. */
const permitted = /not_found|invalid_generator_id|violation|already_registered|not_registered|agent_not_associated|^(23505|23503|BK006)$/

test('concurrent label and target changes leave no difference to a recount', async () => {
  for (let round = 0; round < 4; round += 1) {
    const generators = [await makeGenerator(), await makeGenerator(), await makeGenerator()]
    const world: World = { generators, agents: [], stacks: [] }
    for (let n = 0; n < 4; n += 1) world.agents.push(await makeAgent(generators))
    for (let n = 0; n < 4; n += 1) world.stacks.push(await makeStack(generators[n % 3]!))
    const refusals = new Set<string>()
    await Promise.all(
      fc.sample(fc.array(step, { minLength: 40, maxLength: 40 }), 10).map(async (steps) => {
        for (const { what, agent, stack, generator, ...rest } of steps) {
          const pick = (from: string[], at: number) => from[at % from.length]!
          const one = {
            agent: pick(world.agents, agent),
            stack: pick(world.stacks, stack),
            generator: pick(world.generators, generator),
            ...rest,
          }
          await acts[what]!(world, one).catch((error: { code?: string; message: string }) => {
            refusals.add(error.code ?? error.message)
          })
        }
      }),
    )
    expect([...refusals].filter((code) => !permitted.test(code))).toEqual([])
    expect((await agentTargets.drift(sql, {})).differences).toBe(0)
    expect(await stackSummary.differences(sql, { limit: 10 })).toEqual([])
  }
})

test('a burst of a thousand creations over 32 connections is not refused', async () => {
  const broker = await startTestBroker()
  try {
    const { generator } = await broker.admin.createGenerator({ body: { name: 'burst' } })
    const statuses = new Map<number, number>()
    let next = 0
    const headers = { authorization: `Bearer ${broker.adminPak}`, 'content-type': 'application/json' }
    const create = async () => {
      for (let n = next++; n < 1000; n = next++) {
        const isAgent = n % 2 === 0
        const labels = n % 4 < 2 ? [isAgent ? 'fleet' : 'tier'] : []
        const body = isAgent
          ? { name: `a${n}`, cluster_name: 'c', generator_ids: [generator.id], labels }
          : { name: `s${n}`, generator_id: generator.id, labels }
        const address = `${broker.url}/api/v1/${isAgent ? 'agents' : 'stacks'}`
        const { status, body: stream } = await fetch(address, { method: 'POST', headers, body: JSON.stringify(body) })
        await stream?.cancel()
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    }
    await Promise.all(Array.from({ length: 32 }, create))
    expect([...statuses.keys()].filter((status) => status >= 300)).toEqual([])
  } finally {
    await broker.kill()
  }
}, 120_000)
