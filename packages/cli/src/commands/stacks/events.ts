// brokkr events STACK[@AGENT]: what agents did and what Kubernetes reported, oldest first.
import type { Client } from '@brokkr/client'
import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { AgentK8sEvent } from '@brokkr/contract/telemetry/telemetry.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { agentNames, parseAddress, requireAgent, requireStack } from '../../names.ts'
import { print } from '../../output.ts'
import { repeatOnChange } from '../../screens.ts'
import { toYaml } from '../../show.ts'
import { formatTable, terminalWidth } from '../../table.ts'

interface EventOptions {
  readonly output: Form
  readonly since: string
  readonly watch?: boolean
}
interface Row {
  readonly id: string
  readonly at: string
  readonly cells: string[]
  readonly value: AgentEvent | AgentK8sEvent
}

const head = ['TIME', 'AGENT', 'OBJECT', 'WHAT', 'MESSAGE']
const readMax = 2000

export async function events(cli: Cli, [text = '']: readonly string[], options: EventOptions): Promise<void> {
  const client = await cli.client()
  const { stack: name, agent } = parseAddress(text)
  const stack = await requireStack(client, name)
  const only = agent === null ? null : (await requireAgent(client, agent)).id
  let since = new Date(Date.now() - parseDuration(options.since, '--since')).toISOString()
  const seen = new Set<string>()
  let isFirst = true
  const look = async () => {
    const rows = (await readRows(client, stack.id, since, only)).filter(({ id }) => !seen.has(id))
    for (const { id } of rows) seen.add(id)
    if (rows.length > 0 || (isFirst && options.watch !== true)) printRows(rows, options.output, isFirst, options.watch === true)
    isFirst = isFirst && rows.length === 0
    // Reports of agents can arrive a little out of order.
    since = new Date(Math.max(Date.parse(since), Date.parse(rows.at(-1)?.at ?? since) - 60_000)).toISOString()
  }
  if (options.watch !== true) return look()
  return repeatOnChange(cli, client, [`stack:${stack.id}`], look)
}

async function readRows(client: Client, id: AgentK8sEvent['stack_id'], since: string, only: string | null): Promise<Row[]> {
  const names = await agentNames(client)
  const rows: Row[] = []
  for await (const event of client.items('listAgentEvents', { query: { stack_id: id, since } }))
    if (rows.push(toRow(event, names)) >= readMax) break
  const { events: fromCluster } = await client.listTelemetryEvents({ params: { id }, query: { since } })
  return [...rows, ...fromCluster.map((event) => toClusterRow(event, names))]
    .filter(({ value }) => only === null || value.agent_id === only)
    .toSorted((a, b) => (a.at < b.at ? -1 : 1))
}

function toRow(event: AgentEvent, names: ReadonlyMap<string, string>): Row {
  const at = event.occurred_at ?? event.created_at
  const [first] = event.resources ?? []
  const object =
    first === undefined
      ? `sequence ${event.sequence_id ?? '-'}`
      : `${first.kind} ${[first.namespace, first.name].filter(Boolean).join('/')}`
  const what = `${event.event_type} ${event.status.toLowerCase()}`
  return {
    id: event.id,
    at,
    value: event,
    cells: [time(at), names.get(event.agent_id) ?? event.agent_id, object, what, event.message ?? '-'],
  }
}

function toClusterRow(event: AgentK8sEvent, names: ReadonlyMap<string, string>): Row {
  const { kind, namespace, name } = event.involved_object
  const object = `${kind} ${[namespace, name].filter(Boolean).join('/')}`
  return {
    id: event.id,
    at: event.observed_at,
    value: event,
    cells: [time(event.observed_at), names.get(event.agent_id) ?? event.agent_id, object, event.reason, event.message],
  }
}

const time = (at: string): string => `${at.slice(0, 19).replace('T', ' ')}Z`

function printRows(rows: readonly Row[], form: Form, isFirst: boolean, isStream: boolean): void {
  const values = rows.map(({ value }) => value)
  // Lines of JSON, so that a reader gets each event as soon as it happens.
  if (form === 'json') return isStream ? values.forEach((value) => print(JSON.stringify(value))) : print(JSON.stringify(values, null, 2))
  if (form === 'yaml') return void process.stdout.write(toYaml(values))
  if (form === 'name') return rows.forEach(({ id }) => print(id))
  return print(
    formatTable({ head, rows: rows.map(({ cells }) => cells) }, form === 'wide' ? Number.POSITIVE_INFINITY : terminalWidth(), isFirst),
  )
}
