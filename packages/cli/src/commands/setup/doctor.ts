// brokkr doctor: checks everything between this command line and the broker, or one agent, and says how to cure what is wrong.
import type { Client } from '@brokkr/client'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { chooseBroker } from '../../context.ts'
import { requireAgent } from '../../names.ts'
import { age, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { stripControls } from '../../table.ts'
import { version } from '../../version.ts'

export interface Finding {
  readonly check: string
  readonly ok: boolean
  readonly text: string
  /** What to do. */
  readonly cure?: string
}

const clockSkewMsMax = 60_000
const feedMs = 5000
const requestMs = 5000

export async function doctor(cli: Cli, _args: readonly string[], options: { output: Form; agent?: string }): Promise<void> {
  const findings = options.agent === undefined ? await examine(cli) : await examineAgent(await cli.client(), options.agent)
  show(options.output, {
    value: findings,
    names: findings.filter(({ ok }) => !ok).map(({ check }) => check),
    lines: () => findings.flatMap(findingLines),
  })
  if (findings.some(({ ok }) => !ok)) process.exitCode = exitCodes.unhealthy
}

export const findingLines = ({ check, ok, text, cure }: Finding): string[] =>
  [`${ok ? '✔' : '✖'} ${check.padEnd(9)} ${text}`, ...(ok || cure === undefined ? [] : [`  ${'cure'.padEnd(9)} ${cure}`])].map(
    stripControls,
  )

export async function examine(cli: Cli): Promise<Finding[]> {
  const { broker } = await chooseBroker(cli.globals, cli.env)
  const reached = await examineBroker(broker)
  const proxy = examineProxy(cli.env, broker)
  if (!reached.every(({ ok }) => ok)) return [...reached, ...proxy]
  const client = await cli.client()
  const results = await Promise.all([examinePak(client), examineFeed(client), examineTasks(client), examineFleet(client)])
  return [...reached, ...proxy, ...results.flat()]
}

async function examineBroker(broker: string): Promise<Finding[]> {
  const startedMs = performance.now()
  try {
    const answer = await fetch(new URL('/readyz', broker), { signal: AbortSignal.timeout(requestMs), redirect: 'error' })
    const text = await answer.text()
    const ms = Math.round(performance.now() - startedMs)
    const skewMs = Math.abs(Date.now() - Date.parse(answer.headers.get('date') ?? new Date().toISOString()))
    return [
      {
        check: 'broker',
        ok: answer.ok,
        text: answer.ok ? `${broker} answers in ${ms} ms` : `not ready: ${text.slice(0, 200)}`,
        cure: 'look into the log of the broker',
      },
      {
        check: 'database',
        ok: answer.ok,
        text: answer.ok ? 'reached by the broker' : 'the broker is not ready',
        cure: 'check DATABASE_URL and the server',
      },
      {
        check: 'clock',
        ok: skewMs <= clockSkewMsMax,
        text: `differs by ${Math.round(skewMs / 1000)} s from the broker`,
        cure: 'correct the time of this machine',
      },
      { check: 'tls', ok: true, text: broker.startsWith('https:') ? 'certificate accepted' : 'plain HTTP on this machine' },
    ]
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const text = cause instanceof Error ? cause.message || ((cause as NodeJS.ErrnoException).code ?? cause.name) : String(cause)
    return [
      {
        check: 'broker',
        ok: false,
        text: `${broker} cannot be reached: ${text}`,
        cure: 'check that it runs, its address, and the network in between',
      },
    ]
  }
}

function examineProxy(env: NodeJS.ProcessEnv, broker: string): Finding[] {
  const name = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'].find((one) => (env[one] ?? '') !== '')
  if (name === undefined) return []
  const isUsed = env['NODE_USE_ENV_PROXY'] === '1'
  return [
    { check: 'proxy', ok: true, text: `${name} is set${isUsed ? '' : `, but not used for ${broker}: set NODE_USE_ENV_PROXY=1 to use it`}` },
  ]
}

async function examinePak(client: Client): Promise<Finding[]> {
  try {
    const owner = await client.verifyPak({})
    const who = owner.admin ? 'an admin' : owner.generator !== null ? 'a generator' : 'an agent'
    return [{ check: 'pak', ok: true, text: `belongs to ${who}${owner.readonly ? ', read only' : ''}` }]
  } catch (error) {
    return [{ check: 'pak', ok: false, text: (error as Error).message, cure: 'brokkr login URL, or --pak-file FILE' }]
  }
}

/** The watch tells first that it is open. */
async function examineFeed(client: Client): Promise<Finding[]> {
  const signal = AbortSignal.timeout(feedMs)
  const startedMs = performance.now()
  try {
    const owner = await client.verifyPak({})
    const scope = owner.generator === null ? 'kind:agent' : `generator:${owner.generator}`
    for await (const event of client.watch({ scope: [scope], signal }))
      if (event.type === 'open') return [{ check: 'feed', ok: true, text: `opens in ${Math.round(performance.now() - startedMs)} ms` }]
    return []
  } catch (error) {
    const text = signal.aborted ? `not open within ${feedMs / 1000} s` : (error as Error).message
    return [{ check: 'feed', ok: false, text, cure: 'a proxy in between may buffer streams: let it pass application/x-ndjson unbuffered' }]
  }
}

/** Only an admin may read the tasks; others get no finding. */
async function examineTasks(client: Client): Promise<Finding[]> {
  const tasks = await client.listTasks({}).catch(() => null)
  if (tasks === null) return []
  const failed = tasks.filter(({ last_error }) => last_error !== null)
  const text =
    failed.length === 0 ? `${tasks.length} run without error` : failed.map(({ name, last_error }) => `${name}: ${last_error}`).join('; ')
  return [{ check: 'tasks', ok: failed.length === 0, text, cure: 'look into the log of the broker' }]
}

async function examineFleet(client: Client): Promise<Finding[]> {
  const overview = await client.getOverview({}).catch(() => null)
  if (overview === null) return []
  const { total, silent, never } = overview.fleet
  const versions = new Set<string>()
  for await (const agent of client.items('listAgents', {})) if (agent.agent_version !== null) versions.add(agent.agent_version)
  return [
    {
      check: 'agents',
      ok: silent + never === 0,
      text: silent + never === 0 ? `${total} connected` : `${silent} of ${total} silent, ${never} never connected`,
      cure: 'brokkr get agents, then brokkr doctor --agent NAME',
    },
    { check: 'versions', ok: true, text: `command line ${version}; agents ${[...versions].toSorted().join(', ') || 'unknown'}` },
  ]
}

async function examineAgent(client: Client, name: string): Promise<Finding[]> {
  const agent = await requireAgent(client, name)
  const { record, recent_events } = await client.getAgentFleetStatus({ params: { id: agent.id } })
  const failure = recent_events.find(({ status }) => status === 'FAILURE')
  return [
    {
      check: 'connection',
      ok: agent.connection_state === 'connected',
      text: `${agent.connection_state}, seen ${age(agent.last_seen_at)} ago`,
      cure: 'check that its pod runs and reaches the broker on port 443 outbound',
    },
    { check: 'status', ok: agent.status === 'ACTIVE', text: agent.status, cure: `brokkr agents resume ${name}` },
    {
      check: 'cluster',
      ok: agent.k8s_reachable !== false,
      text:
        agent.k8s_reachable === null
          ? 'not reported yet'
          : `API server ${agent.k8s_reachable ? 'reachable' : 'unreachable'}, ${agent.k8s_api_latency_ms ?? '?'} ms`,
      cure: 'check the API server and the permissions of the agent',
    },
    {
      check: 'lag',
      ok: record.pending_object_count === 0,
      text: `${record.pending_object_count} objects behind`,
      cure: `brokkr describe agent ${name}`,
    },
    {
      check: 'health',
      ok: record.health_failing === 0,
      text: `${record.health_failing} failing, ${record.health_degraded} degraded`,
      cure: 'brokkr status',
    },
    { check: 'version', ok: true, text: agent.agent_version ?? 'not reported yet' },
    ...(failure === undefined
      ? []
      : [{ check: 'failure', ok: true, text: `${age(failure.created_at)} ago: ${failure.message ?? failure.event_type}` }]),
  ]
}
