// brokkr work-orders create | retry | cancel | output | watch.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@brokkr/client'
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import { change, confirm } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions, Form } from '../../command.ts'
import { requireAgent } from '../../names.ts'
import { CliError, exitCodes, print, printError } from '../../output.ts'
import { show, showLine } from '../../show.ts'
import { stripControls } from '../../table.ts'
import { waitUntil } from '../../wait.ts'
import { readManifests } from '../stacks/read-manifests.ts'
import { requireOrderId, requireWorkOrder } from './resource.ts'

interface CreateOptions extends ChangeOptions {
  readonly type: string
  readonly file: string
  readonly agent: readonly string[]
  readonly label: readonly string[]
  readonly retries?: string
}

export async function createWorkOrder(cli: Cli, _args: readonly string[], options: CreateOptions): Promise<void> {
  if (options.agent.length + options.label.length === 0)
    throw new CliError('no agent is selected', { next: '--agent NAME, or --label LABEL', exitCode: exitCodes.usage })
  const yaml_content = await readManifests(options.file)
  const client = await cli.client()
  const agents = await Promise.all(options.agent.map((name) => requireAgent(client, name)))
  const body = {
    work_type: options.type,
    yaml_content,
    targeting: { agent_ids: agents.map(({ id }) => id), labels: [...options.label] },
    ...(options.retries === undefined ? {} : { max_retries: Number(options.retries) }),
  }
  const order = await change(options, `create a work order of type ${options.type}`, () => client.createWorkOrder({ body }))
  if (order === null) return
  show(options.output, { value: order, names: [order.id], lines: () => [`work order ${order.id} created`] })
  if (options.wait === true) await waitForOrder(cli, client, order.id, options)
}

export async function retryWorkOrder(cli: Cli, [text = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const id = await requireOrderId(client, text)
  const order = await change(options, `create a new work order with the content of ${id}`, () => client.retryWorkOrder({ params: { id } }))
  if (order === null) return
  show(options.output, { value: order, names: [order.id], lines: () => [`work order ${order.id} repeats ${id}`] })
  if (options.wait === true) await waitForOrder(cli, client, order.id, options)
}

export async function cancelWorkOrder(cli: Cli, [text = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const order = await requireWorkOrder(client, text)
  await confirm(options, order.id, [
    `deletes the open work order ${order.id} (${order.status}); an agent that runs it gets no result stored`,
  ])
  const done = await change(options, `delete work order ${order.id}`, async () => {
    await client.deleteWorkOrder({ params: { id: order.id } })
    return { id: order.id, deleted: true }
  })
  if (done !== null) show(options.output, { value: done, names: [order.id], lines: () => [`work order ${order.id} deleted`] })
}

async function waitForOrder(cli: Cli, client: Client, id: WorkOrder['id'], { timeout = '5m' }: ChangeOptions): Promise<void> {
  await waitUntil(cli, client, {
    what: `work order ${id}`,
    next: `brokkr work-orders output ${id}`,
    scope: [`work_order:${id}`],
    timeout,
    check: async () => {
      const order = await client.getWorkOrder({ params: { id } })
      if (order.status === 'FAILED') throw orderFailed(order)
      return order.status === 'COMPLETED' ? null : `${order.status}, attempt ${order.attempt}`
    },
  })
  printError(`work order ${id} completed`)
}

/** One line per state. A work order that has ended before is printed once. */
export async function watchWorkOrder(cli: Cli, [text = '']: readonly string[], options: { output: Form; timeout: string }): Promise<void> {
  const client = await cli.client()
  const id = await requireOrderId(client, text)
  let shown = ''
  await waitUntil(cli, client, {
    what: `work order ${id}`,
    next: `brokkr work-orders output ${id}`,
    scope: [`work_order:${id}`],
    timeout: options.timeout,
    check: async () => {
      const order = await client.getWorkOrder({ params: { id } })
      const state = `${order.status}, attempt ${order.attempt}`
      if (state !== shown) showLine(options.output, { value: order, names: [id], lines: () => [`${id}  ${state}`] })
      shown = state
      if (order.status === 'FAILED') throw orderFailed(order)
      return order.status === 'COMPLETED' ? null : state
    },
  })
}

const orderFailed = ({ id, last_error }: Pick<WorkOrder, 'id' | 'last_error'>): CliError =>
  new CliError(`work order ${id} failed`, {
    next: `brokkr work-orders output ${id}`,
    exitCode: exitCodes.unhealthy,
    cause: new Error(last_error ?? 'no message'),
  })

const followMs = 1000

/** With --follow, prints what arrives until the work order has ended. */
export async function workOrderOutput(
  cli: Cli,
  [text = '']: readonly string[],
  options: { output: Form; follow?: boolean },
): Promise<void> {
  const client = await cli.client()
  const params = { id: await requireOrderId(client, text) }
  const first = await client.getWorkOrderOutput({ params })
  if (options.output !== 'table' || options.follow !== true)
    return show(options.output, { value: first, names: [params.id], lines: () => first.text.trimEnd().split('\n').map(stripControls) })
  const signal = cli.interruption('stopped following; the work order goes on')
  let printed = 0
  for (let answer = first; ; answer = await client.getWorkOrderOutput({ params })) {
    const bytes = Buffer.from(answer.text)
    if (answer.offset > printed && printed > 0) printError(`… ${answer.offset - printed} bytes dropped`)
    const fresh = bytes.subarray(Math.max(0, printed - answer.offset)).toString()
    for (const line of fresh.split('\n')) if (line !== '') print(stripControls(line))
    printed = answer.offset + bytes.length
    if (answer.finished) return undefined
    await sleep(followMs, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}
