// brokkr logs STACK[@AGENT]: log lines that agents stream for marked pods, else the last lines by a diagnostic request.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@brokkr/client'
import type { AgentPodLog } from '@brokkr/contract/telemetry/telemetry.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { agentNames, parseAddress, requireAgent, requireStack } from '../../names.ts'
import { CliError, exitCodes, print, printError } from '../../output.ts'
import { stripControls } from '../../table.ts'
import { type LogTail, readTails } from './log-tails.ts'

interface LogOptions {
  readonly output: Form
  readonly container?: string
  readonly follow?: boolean
  readonly previous?: boolean
  readonly since?: string
  readonly timeout: string
}

const followMs = 1000
const pageSize = 500

export async function logs(cli: Cli, [text = '']: readonly string[], options: LogOptions): Promise<void> {
  if (options.follow === true && options.previous === true)
    throw new CliError('--follow and --previous exclude each other', { next: 'give one of them', exitCode: exitCodes.usage })
  const { stack: name, agent } = parseAddress(text)
  const client = await cli.client()
  const stack = await requireStack(client, name)
  const only = agent === null ? null : (await requireAgent(client, agent)).id
  const isWanted = (line: AgentPodLog) =>
    (only === null || line.agent_id === only) && (options.container === undefined || line.container === options.container)
  const names = await agentNames(client)
  const since = options.since === undefined ? null : new Date(Date.now() - parseDuration(options.since, '--since')).toISOString()
  const lines = options.previous === true ? [] : (await readLines(client, stack.id, since)).filter(isWanted)
  for (const line of lines) printLine(line, names, options.output)
  if (options.follow === true)
    return follow(cli, client, { stackId: stack.id, last: lines.at(-1)?.ts ?? null, isWanted, names, output: options.output })
  if (lines.length > 0) return undefined
  if (agent === null)
    throw new CliError(`no pod of ${name} streams its logs`, {
      next: `name an agent to read the last lines once: brokkr logs ${name}@AGENT; or mark pods with brokkr.io/stream-logs`,
      exitCode: exitCodes.notFound,
    })
  const tails = await readTails(cli, client, { stack, agentId: only!, agentName: agent, timeout: options.timeout })
  return printTails(tails, options)
}

/** Oldest first. */
async function readLines(
  client: Client,
  stackId: Parameters<Client['listTelemetryLogs']>[0]['params']['id'],
  since: string | null,
): Promise<AgentPodLog[]> {
  const query = { limit: pageSize, ...(since === null ? {} : { since }) }
  const { lines } = await client.listTelemetryLogs({ params: { id: stackId }, query })
  return lines.toReversed()
}

interface Following {
  readonly stackId: Parameters<Client['listTelemetryLogs']>[0]['params']['id']
  readonly last: string | null
  readonly isWanted: (line: AgentPodLog) => boolean
  readonly names: ReadonlyMap<string, string>
  readonly output: Form
}

async function follow(cli: Cli, client: Client, given: Following): Promise<void> {
  const signal = cli.interruption('stopped following')
  const seen = new Set<string>()
  let since = given.last ?? new Date().toISOString()
  for (;;) {
    const lines = await readLines(client, given.stackId, since)
    if (lines.length === pageSize && !seen.has(lines[0]!.id)) printError('… lines were dropped: more arrived than one read returns')
    for (const line of lines.filter((one) => !seen.has(one.id) && given.isWanted(one))) {
      seen.add(line.id)
      if (line.ts !== given.last) printLine(line, given.names, given.output)
    }
    since = lines.at(-1)?.ts ?? since
    await sleep(followMs, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

function printLine(line: AgentPodLog, names: ReadonlyMap<string, string>, form: Form): void {
  if (form === 'json') return print(JSON.stringify(line))
  return print(
    stripControls(`${line.ts.slice(0, 23)}Z ${names.get(line.agent_id) ?? line.agent_id} ${line.pod}/${line.container} ${line.line}`),
  )
}

function printTails(tails: readonly LogTail[], options: LogOptions): void {
  const wanted = tails.filter(
    (tail) => tail.isPrevious === (options.previous === true) && (options.container === undefined || tail.container === options.container),
  )
  if (options.output === 'json') return print(JSON.stringify(wanted, null, 2))
  if (wanted.length === 0)
    throw new CliError('no pod has such lines', {
      where: tails.map(({ key }) => key).join(', ') || 'no pod',
      next: 'look for pods with brokkr tree STACK@AGENT',
      exitCode: exitCodes.notFound,
    })
  for (const { pod, container, text } of wanted)
    for (const line of text.split('\n')) if (line !== '') print(stripControls(`${pod}/${container} ${line}`))
  return undefined
}
