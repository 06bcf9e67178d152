// What the demo shows besides stacks: a template of the generator, a webhook into the inbox page, and one work order. All are made
// through the public API, and a second start finds them. The API lets only admins create webhooks and work orders.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Client, createClient } from '@brokkr/client'
import { errorText } from '@brokkr/runtime/errors.ts'
import { agentLabel, type LocalAgent } from './agent-program.ts'
import type { LocalBroker } from './broker-program.ts'
import { demoTemplate, demoWorkOrder } from './demo-manifest.ts'
import { type Inbox, startInbox } from './inbox.ts'
import { writeSecretFile } from './paks.ts'
import type { StepResult } from './progress.ts'
import type { UpContext } from './up.ts'

const webhookName = 'demo-inbox'

/** A demo that cannot be completed is skipped: everything else works without it. */
export async function startDemoExtras(context: UpContext, broker: LocalBroker, agent: LocalAgent): Promise<StepResult<void>> {
  try {
    return await ensureDemoExtras(context, broker, agent)
  } catch (error) {
    context.signal.throwIfAborted()
    return { detail: `template, webhook and work order are not complete: ${errorText(error)}`, value: undefined, skipped: true }
  }
}

export async function ensureDemoExtras(context: UpContext, broker: LocalBroker, agent: LocalAgent): Promise<StepResult<void>> {
  const admin = createClient({ baseUrl: broker.url, pak: () => broker.adminPak, userAgent: 'brokkr-up' })
  const generator = createClient({ baseUrl: broker.url, pak: () => agent.generatorPak, userAgent: 'brokkr-up' })
  await ensureTemplate(generator)
  const inbox = await openInbox(context, admin, broker)
  await ensureWorkOrder(admin)
  return { detail: `template ${demoTemplate.name} · work order · inbox at ${inbox.url}`, value: undefined }
}

async function ensureTemplate(client: Client): Promise<void> {
  const { name } = demoTemplate
  if ((await client.listTemplates({ query: { name } })).length === 0) await client.createTemplate({ body: demoTemplate })
}

/** The webhook is created once. If its port is taken at a later start, its address follows. */
async function openInbox({ dir, signal }: UpContext, admin: Client, broker: LocalBroker): Promise<Inbox> {
  const [portFile, secretFile] = [join(dir, 'inbox.port'), join(broker.keysDir, 'demo-webhook.secret')]
  const known = Number(await readFile(portFile, 'utf8').catch(() => '')) || null
  const stored = await readFile(secretFile, 'utf8').then(
    (text) => text.trim(),
    () => null,
  )
  let secret = stored
  const inbox = await startInbox({ port: known, secret: () => secret })
  signal.addEventListener('abort', () => void inbox.close())
  const webhook = await findWebhook(admin)
  const settings = { url: inbox.url, event_types: ['deployment.*', 'stack.*', 'workorder.*'] }
  if (webhook === undefined) secret = (await admin.createWebhook({ body: { name: webhookName, ...settings } })).signing_secret
  // A start that was killed before it stored the secret.
  else if (secret === null) secret = (await admin.rotateWebhookSecret({ params: { id: webhook.id } })).signing_secret
  if (secret !== null && secret !== stored) await writeSecretFile(secretFile, secret)
  if (webhook !== undefined && inbox.port !== known) await admin.updateWebhook({ params: { id: webhook.id }, body: { url: inbox.url } })
  if (inbox.port !== known) await writeFile(portFile, `${inbox.port}\n`)
  return inbox
}

async function findWebhook(client: Client): Promise<{ readonly id: string } | undefined> {
  for await (const webhook of client.items('listWebhooks', {})) if (webhook.name === webhookName) return webhook
  return undefined
}

/** Open or finished, the order of an earlier start is found by its content. */
async function ensureWorkOrder(client: Client): Promise<void> {
  for await (const { yaml_content } of client.items('listWorkOrders', { query: { work_type: 'custom' } }))
    if (yaml_content === demoWorkOrder) return
  for await (const { yaml_content } of client.items('listWorkOrderLog', { query: { work_type: 'custom' } }))
    if (yaml_content === demoWorkOrder) return
  await client.createWorkOrder({ body: { work_type: 'custom', yaml_content: demoWorkOrder, targeting: { labels: [agentLabel] } } })
}
