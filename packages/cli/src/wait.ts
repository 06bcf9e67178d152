// Waits for an effect: looks again whenever the feed reports a change, and every second without a feed. Ctrl-C stops waiting, not
// the work.
import type { Client } from '@brokkr/client'
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import type { Cli } from './cli.ts'
import { parseDuration } from './duration.ts'
import { CliError, exitCodes, printError } from './output.ts'

export interface Wait {
  /** Continues "stopped waiting; …". */
  readonly what: string
  /** The command that shows more. */
  readonly next: string
  readonly scope: readonly string[]
  readonly timeout: string
  /** Null when the effect is there; else the state in words. Throws if it can no longer come. */
  readonly check: () => Promise<string | null>
}

const lookMs = 1000

export async function waitUntil(cli: Cli, client: Client, wait: Wait): Promise<void> {
  const deadline = AbortSignal.timeout(parseDuration(wait.timeout, '--timeout'))
  const interrupted = cli.interruption(`stopped waiting; ${wait.what} goes on`)
  const ended = new AbortController()
  const signal = AbortSignal.any([deadline, interrupted, ended.signal])
  const feed = followFeed(client, wait.scope, signal)
  let shown = ''
  try {
    for (;;) {
      const changed = feed.next()
      const state = await wait.check()
      if (state === null) return
      if (state !== shown && process.stderr.isTTY) printError(`waits for ${state}`)
      shown = state
      await Promise.race([changed, pause(lookMs, signal)])
      interrupted.throwIfAborted()
      if (deadline.aborted) throw timedOut(wait, state)
    }
  } finally {
    ended.abort()
  }
}

const timedOut = (wait: Wait, state: string): CliError =>
  new CliError(`not done within ${wait.timeout}: ${wait.what} goes on`, {
    where: state,
    next: wait.next,
    exitCode: exitCodes.timedOut,
  })

/** Resolves after the time or when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    return signal.addEventListener('abort', done)
  })
}

/** `next()` resolves with the next change. A feed that may not be watched reports nothing; the caller looks again by itself. */
function followFeed(client: Client, scope: readonly string[], signal: AbortSignal): { next: () => Promise<void> } {
  let wake = (): void => undefined
  let next = new Promise<void>((resolve) => (wake = resolve))
  const renew = () => {
    wake()
    next = new Promise<void>((resolve) => (wake = resolve))
  }
  void (async () => {
    for await (const event of client.watch({ scope, signal })) if (event.type === 'change' || event.type === 'open') renew()
  })().catch(() => undefined)
  return { next: () => next }
}

/** Every agent has applied this sequence number or a later one, and is healthy with it. */
export async function waitForStack(
  cli: Cli,
  client: Client,
  given: { readonly id: string; readonly name: string; readonly sequence: number; readonly timeout: string },
): Promise<AgentStackStatus[]> {
  let agents: AgentStackStatus[] = []
  const next = `brokkr describe stack ${given.name}`
  await waitUntil(cli, client, {
    what: `the rollout of ${given.name} ${given.sequence}`,
    next,
    scope: [`stack:${given.id}`],
    timeout: given.timeout,
    check: async () => {
      const status = await client.getStackStatus({ params: { id: given.id } })
      agents = status.agents
      const { held_sequence_id: held } = status
      if (held !== null && held < given.sequence)
        throw new CliError(`${given.name} ${given.sequence} waits behind a hold at ${held}`, {
          where: next,
          next: `brokkr release ${given.name}`,
          exitCode: exitCodes.refused,
        })
      const failed = agents.find((agent) => agent.phase === 'failed' && (agent.sequence_id ?? 0) >= given.sequence)
      if (failed !== undefined) throw notApplied(given.name, failed, next)
      if (agents.length === 0) return 'an agent that the stack targets'
      const open = agents.filter((agent) => !isDone(agent, given.sequence))
      return open.length === 0 ? null : `${open.length} of ${agents.length} agents: ${open.slice(0, 5).map(describeAgent).join(', ')}`
    },
  })
  return agents
}

const isDone = ({ phase, sequence_id, health, stale }: AgentStackStatus, sequence: number): boolean =>
  phase === 'applied' && (sequence_id ?? 0) >= sequence && health === 'healthy' && !stale

const describeAgent = ({ agent_name, phase, health, stale }: AgentStackStatus): string =>
  `${agent_name} ${stale ? 'is silent' : phase === 'applied' ? `is ${health}` : (phase ?? 'has not reported')}`

const notApplied = (name: string, agent: AgentStackStatus, next: string): CliError =>
  new CliError(`${name} was not applied on ${agent.agent_name}`, {
    where: agent.code ?? '',
    next: `brokkr explain stuck ${name}@${agent.agent_name}, or ${next}`,
    exitCode: exitCodes.unhealthy,
    cause: new Error(agent.message ?? 'the agent gave no message'),
  })
