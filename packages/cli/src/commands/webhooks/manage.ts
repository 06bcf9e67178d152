// brokkr webhooks create | test | deliveries | replay | pause | resume | rotate | delete.
import { readFile } from 'node:fs/promises'
import { change, confirm, giveSecret, requireNewFile } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions, Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { requireWebhook } from '../../names.ts'
import { CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { deliveryHead, deliveryRow } from './deliveries.ts'

interface CreateOptions extends ChangeOptions {
  readonly url: string
  readonly event: readonly string[]
  readonly label: readonly string[]
  readonly authHeaderFile?: string
  readonly out?: string
}

export async function createWebhook(cli: Cli, [name = '']: readonly string[], options: CreateOptions): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  // A header that authenticates is a secret, so it comes from a file and not from the arguments.
  const auth_header = options.authHeaderFile === undefined ? undefined : (await readHeader(options.authHeaderFile)).trim()
  const body = {
    name,
    url: options.url,
    event_types: options.event.length === 0 ? ['*'] : [...options.event],
    ...(options.label.length === 0 ? {} : { target_labels: [...options.label] }),
    ...(auth_header === undefined ? {} : { auth_header }),
  }
  const done = await change(options, `create webhook ${name}`, () => client.createWebhook({ body }))
  if (done !== null) await giveSecret(options, { what: `webhook ${name} created`, text: done.signing_secret, value: done })
}

const readHeader = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause: unknown) => {
    throw new CliError('the header file cannot be read', { where: file, next: '--auth-header-file FILE', exitCode: exitCodes.usage, cause })
  })

export async function testWebhook(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const { id } = await requireWebhook(client, name)
  const done = await change(options, `send a test request to webhook ${name}`, () => client.testWebhook({ params: { id } }))
  if (done !== null)
    show(options.output, { value: done, names: [name], lines: () => [`webhook ${name} answered ${done.status_code}: ${done.message}`] })
}

const deliveriesMax = 50

export async function listDeliveries(cli: Cli, [name = '']: readonly string[], options: { output: Form; status?: string }): Promise<void> {
  const client = await cli.client()
  const { id } = await requireWebhook(client, name)
  const query = { limit: deliveriesMax, ...(options.status === undefined ? {} : { status: options.status }) }
  const deliveries = await client.listDeliveries({ params: { id }, query })
  show(options.output, {
    value: deliveries,
    names: deliveries.map((one) => one.id),
    table: () => ({ head: deliveryHead, rows: deliveries.map(deliveryRow) }),
    wide: () => ({ head: [...deliveryHead, 'ID'], rows: deliveries.map((one) => [...deliveryRow(one), one.id]) }),
  })
}

interface ReplayOptions extends ChangeOptions {
  readonly since: string
  readonly dead?: boolean
  readonly event: readonly string[]
}

export async function replayDeliveries(cli: Cli, [name = '']: readonly string[], options: ReplayOptions): Promise<void> {
  const since = new Date(Date.now() - parseDuration(options.since, '--since')).toISOString()
  const client = await cli.client()
  const { id } = await requireWebhook(client, name)
  const body = {
    since,
    status: options.dead === true ? ['dead' as const] : ['dead' as const, 'success' as const],
    ...(options.event.length === 0 ? {} : { event_types: [...options.event] }),
  }
  const what = options.dead === true ? 'failed deliveries' : 'deliveries'
  const done = await change(options, `send ${what} of webhook ${name} since ${since} again`, () =>
    client.replayDeliveries({ params: { id }, body }),
  )
  if (done !== null) show(options.output, { value: done, names: [name], lines: () => [`${done.count} ${what} of ${name} are sent again`] })
}

export const setWebhookEnabled =
  (enabled: boolean) =>
  async (cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> => {
    const client = await cli.client()
    const { id } = await requireWebhook(client, name)
    const done = await change(options, `${enabled ? 'resume' : 'pause'} webhook ${name}`, () =>
      client.updateWebhook({ params: { id }, body: { enabled } }),
    )
    if (done !== null)
      show(options.output, { value: done, names: [name], lines: () => [`webhook ${name} is ${enabled ? 'enabled' : 'paused'}`] })
  }

export async function rotateWebhook(cli: Cli, [name = '']: readonly string[], options: ChangeOptions & { out?: string }): Promise<void> {
  await requireNewFile(options.out)
  const client = await cli.client()
  const { id } = await requireWebhook(client, name)
  const done = await change(options, `replace the signing secret of webhook ${name}`, () => client.rotateWebhookSecret({ params: { id } }))
  if (done !== null)
    await giveSecret(options, { what: `the old signing secret of ${name} stays valid for one day`, text: done.signing_secret, value: done })
}

export async function deleteWebhook(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const { id } = await requireWebhook(client, name)
  await confirm(options, name, [`deletes webhook ${name} and its deliveries`])
  const done = await change(options, `delete webhook ${name} and its deliveries`, async () => {
    await client.deleteWebhook({ params: { id } })
    return { id, name, deleted: true }
  })
  if (done !== null) show(options.output, { value: done, names: [name], lines: () => [`webhook ${name} deleted`] })
}
