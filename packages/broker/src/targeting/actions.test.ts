import { randomBytes } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { createAgent, deleteAgent } from '../agents/actions/agents.ts'
import { addAgentAnnotation, removeAgentAnnotation } from '../agents/actions/annotate-agent.ts'
import { addAgentLabel, removeAgentLabel } from '../agents/actions/label-agent.ts'
import { systemActor } from '../audit/rules.ts'
import { bootstrap } from '../bootstrap.ts'
import { createGenerator } from '../generators/actions/generators.ts'
import { deregisterAgent, registerAgent } from '../generators/actions/registrations.ts'
import { createSeal } from '../seal.ts'
import { addStackAnnotation, removeStackAnnotation } from '../stacks/actions/annotate-stack.ts'
import { addStackLabel, removeStackLabel } from '../stacks/actions/label-stack.ts'
import { createStack, deleteStack } from '../stacks/actions/stacks.ts'
import { freshSubscriptions, type SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import { addTarget, removeTarget } from './actions.ts'

const actor = { ...systemActor, kind: 'admin' as const }
let sql: Database
let deps: { sql: Database; seal: ReturnType<typeof createSeal>; subscriptionCache: SubscriptionCache; wakeFeed: () => void }
beforeAll(async () => {
  sql = openDatabase({ url: (await database()).url, schema: 'public', poolSize: 8 })
  deps = { sql, seal: createSeal([randomBytes(32)]), subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }
  await bootstrap({ sql }, { pak_hash: 'a'.repeat(64), admin_pak_file: '/nowhere', allow_sample_pak: false })
  return () => sql.close()
})

let count = 0
const unique = (word: string) => `${word}-${(count += 1)}`
const makeGenerator = async () => (await createGenerator(deps, { name: unique('g'), description: null, actor })).generator.id
const makeAgent = async (generators: string[], labels: string[] = [], annotations: Record<string, string> = {}) => {
  const name = unique('a')
  return (await createAgent(deps, { name, cluster_name: name, generator_ids: generators, labels, annotations, actor })).agent.id
}
const makeStack = async (generatorId: string, labels: string[] = [], annotations: Record<string, string> = {}) =>
  (await createStack(deps, { name: unique('s'), description: null, generatorId, labels, annotations, drift: 'heal', actor })).id
async function pairsOf(agents: readonly string[]): Promise<string[]> {
  const client = await sql.connect()
  const { rows } = await client.query<{ pair: string }>(
    `select agent_id || ' ' || stack_id || case when explicit then ' e' else '' end || case when by_label then ' l' else '' end || case when by_annotation then ' a' else '' end as pair from agent_targets where agent_id = any($1)`,
    [agents],
  )
  await client.end()
  return rows.map(({ pair }) => pair).toSorted()
}

test('a new agent gets all matching stacks of its registered generators', async () => {
  const [own, foreign] = [await makeGenerator(), await makeGenerator()]
  const byLabel = await makeStack(own, ['env:prod'])
  const byAnnotation = await makeStack(own, [], { tier: 'web' })
  const byBoth = await makeStack(own, ['env:prod'], { tier: 'web' })
  await makeStack(own, ['env:dev'], { tier: 'db' })
  await makeStack(foreign, ['env:prod'], { tier: 'web' })
  const agent = await makeAgent([own], ['env:prod'], { tier: 'web' })
  expect(await pairsOf([agent])).toEqual([`${agent} ${byLabel} l`, `${agent} ${byAnnotation} a`, `${agent} ${byBoth} l a`].toSorted())
})

test('equal labels added at the same time always create the target', async () => {
  const generator = await makeGenerator()
  for (let round = 0; round < 30; round += 1) {
    const [agent, stack] = [await makeAgent([generator]), await makeStack(generator)]
    await Promise.all([
      addAgentLabel(deps, { agentId: agent, label: 'both', actor }),
      addStackLabel(deps, { stackId: stack, label: 'both', actor }),
    ])
    expect(await pairsOf([agent])).toContain(`${agent} ${stack} l`)
    await removeAgentLabel(deps, { agentId: agent, label: 'both', actor })
  }
})

/** What a person would say: an agent has a live stack of a generator it is registered with, if aimed by hand or one label or
 *  annotation is equal; deregistering forgets what was aimed. */
function model(world: World): string[] {
  return world.agents.flatMap((agent) =>
    world.stacks.flatMap((stack) => {
      const isByHand = world.explicit.has(`${agent.id} ${stack.id}`)
      const isByLabel = [...agent.labels].some((label) => stack.labels.has(label))
      const isByPair = agent.pair !== null && agent.pair === stack.pair
      const isOut = agent.isDeleted || stack.isDeleted || !agent.generators.has(stack.generator)
      if (isOut || !(isByHand || isByLabel || isByPair)) return []
      return [`${agent.id} ${stack.id}${isByHand ? ' e' : ''}${isByLabel ? ' l' : ''}${isByPair ? ' a' : ''}`]
    }),
  )
}
interface World {
  readonly agents: { id: string; labels: Set<string>; pair: string | null; generators: Set<string>; isDeleted: boolean }[]
  readonly stacks: { id: string; labels: Set<string>; pair: string | null; generator: string; isDeleted: boolean }[]
  readonly explicit: Set<string>
}
const step = fc.record({
  what: fc.constantFrom('labelAgent', 'labelStack', 'annotateAgent', 'annotateStack', 'register', 'target', 'deleteStack', 'deleteAgent'),
  agent: fc.nat(2),
  stack: fc.nat(3),
  label: fc.constantFrom('x', 'y', 'z'),
})

test('targets equal a model after random operations', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      const generators = [await makeGenerator(), await makeGenerator()]
      const world: World = { agents: [], stacks: [], explicit: new Set() }
      for (let n = 0; n < 3; n += 1)
        world.agents.push({
          id: await makeAgent([generators[0]!]),
          labels: new Set(),
          pair: null,
          generators: new Set([generators[0]!]),
          isDeleted: false,
        })
      for (let n = 0; n < 4; n += 1)
        world.stacks.push({
          id: await makeStack(generators[n % 2]!),
          labels: new Set(),
          pair: null,
          generator: generators[n % 2]!,
          isDeleted: false,
        })
      for (const one of steps) await act(world, generators[1]!, one)
      const ids = world.agents.map(({ id }) => id)
      expect(await pairsOf(ids)).toEqual(model(world).toSorted())
    }),
    { numRuns: Math.min(size('Q7.cases') ?? 100, 1000) / 4 },
  )
})

async function act(
  world: World,
  second: string,
  { what, agent: a, stack: s, label }: { what: string; agent: number; stack: number; label: string },
): Promise<void> {
  const agent = world.agents[a]!
  const stack = world.stacks[s]!
  const pair = `${agent.id} ${stack.id}`
  if (agent.isDeleted || stack.isDeleted) return
  if (what === 'labelAgent') {
    await (agent.labels.has(label) ? removeAgentLabel : addAgentLabel)(deps, { agentId: agent.id, label, actor })
    toggle(agent.labels, label)
  } else if (what === 'labelStack') {
    await (stack.labels.has(label) ? removeStackLabel : addStackLabel)(deps, { stackId: stack.id, label, actor })
    toggle(stack.labels, label)
  } else if (what === 'annotateAgent') {
    if (agent.pair === null) await addAgentAnnotation(deps, { agentId: agent.id, key: 'k', value: label, actor })
    else await removeAgentAnnotation(deps, { agentId: agent.id, key: 'k', actor })
    agent.pair = agent.pair === null ? label : null
  } else if (what === 'annotateStack') {
    if (stack.pair === null) await addStackAnnotation(deps, { stackId: stack.id, key: 'k', value: label, actor })
    else await removeStackAnnotation(deps, { stackId: stack.id, key: 'k', actor })
    stack.pair = stack.pair === null ? label : null
  } else if (what === 'register') {
    const registration = { generatorId: second, agentId: agent.id, selfRegistration: false, actor }
    await (agent.generators.has(second) ? deregisterAgent : registerAgent)(deps, registration)
    toggle(agent.generators, second)
    if (!agent.generators.has(second))
      for (const { id, generator } of world.stacks) if (generator === second) world.explicit.delete(`${agent.id} ${id}`)
  } else if (what === 'target' && agent.generators.has(stack.generator)) {
    await (world.explicit.has(pair) ? removeTarget : addTarget)(deps, {
      agentId: agent.id,
      stackId: stack.id,
      bodyAgentId: agent.id,
      actor,
    })
    toggle(world.explicit, pair)
  } else if (what === 'deleteStack') {
    await deleteStack(deps, { stackId: stack.id, actor })
    stack.isDeleted = true
  } else if (what === 'deleteAgent') {
    await deleteAgent(deps, { agentId: agent.id, actor })
    agent.isDeleted = true
  }
}

function toggle(set: Set<string>, value: string): void {
  if (!set.delete(value)) set.add(value)
}

test('a target requires a registration for every caller', async () => {
  const [own, foreign] = [await makeGenerator(), await makeGenerator()]
  const agent = await makeAgent([own])
  const stack = await makeStack(foreign)
  const aim = (kind: 'admin' | 'generator' | 'agent', id: string) =>
    addTarget(deps, { agentId: agent, stackId: stack, bodyAgentId: agent, actor: { ...actor, kind, id } })
  await expect(aim('admin', agent)).rejects.toMatchObject({ code: 'agent_not_registered' })
  await expect(aim('generator', foreign)).rejects.toMatchObject({ code: 'agent_not_registered' })
  await expect(aim('generator', own)).rejects.toMatchObject({ code: 'target_generator_mismatch' })
  await expect(aim('agent', agent)).rejects.toMatchObject({ code: 'target_create_denied' })
  await expect(
    registerAgent(deps, { generatorId: foreign, agentId: null, selfRegistration: false, actor: { ...actor, kind: 'agent', id: agent } }),
  ).rejects.toMatchObject({ code: 'forbidden' })
  expect(await pairsOf([agent])).toEqual([])
})
