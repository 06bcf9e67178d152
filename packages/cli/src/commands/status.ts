// brokkr status: one screen of counts and what is wrong; exit 6 if anything is, so that scripts can ask.
import { openClient } from '../context.ts'
import type { Globals } from '../main.ts'
import { age, print } from '../output.ts'
import { stacksWithStatus, stateOf } from './get.ts'

const wrongMax = 20
const somethingIsWrong = 6

export async function status(globals: Globals): Promise<void> {
  const client = await openClient(globals)
  const [agents, stacks] = await Promise.all([client.listAgents({}), stacksWithStatus(client)])
  const silent = agents.filter((agent) => agent.connection_state !== 'connected' || isSilent(agent.last_seen_at))
  const states = stacks.map(({ status: one }) => stateOf(one))
  const count = (state: string) => states.filter((one) => one === state).length
  print('broker   ok')
  print(
    `fleet    ${agents.length - silent.length} of ${agents.length} connected${silent.length === 0 ? '' : `   silent: ${silent.map(({ name, last_seen_at }) => `${name} (${age(last_seen_at)})`).join(', ')}`}`,
  )
  print(
    `stacks   ${count('applied')} of ${stacks.length} applied${['failed', 'held', 'pending', 'waiting', 'stale', 'no agent', 'empty']
      .filter((state) => count(state) > 0)
      .map((state) => `   ${count(state)} ${state}`)
      .join('')}`,
  )
  const wrong = stacks.flatMap(({ stack, status: one }) =>
    one.agents.filter((agent) => agent.phase === 'failed' || agent.phase === 'held').map((agent) => ({ stack, agent })),
  )
  for (const { stack, agent } of wrong.slice(0, wrongMax))
    print(
      `wrong    ${stack.name}@${agent.agent_name}   ${agent.phase} ${age(agent.observed_at)}   ${[agent.code, agent.message].filter(Boolean).join(': ')}`,
    )
  if (wrong.length > 0) print(`next     brokkr describe stack ${wrong[0]!.stack.name}`)
  if (wrong.length > 0 || silent.length > 0) process.exitCode = somethingIsWrong
}

/** Three missed heartbeats. */
const isSilent = (seenAt: string | null): boolean => seenAt === null || Date.now() - Date.parse(seenAt) > 90_000
