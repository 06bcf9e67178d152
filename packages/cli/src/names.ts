// Finds resources by the names that people type. A name that does not exist gets the nearest ones as suggestions.
import type { Client } from '@brokkr/client'
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import type { ListedStack } from '@brokkr/contract/stacks/stack.ts'
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import type { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import { CliError, exitCodes } from './output.ts'
import { suggest } from './suggest.ts'

const comparedMax = 1000

interface Lookup {
  readonly what: string
  readonly name: string
  /** The command that lists what exists. */
  readonly next: string
  readonly names: () => AsyncIterable<{ readonly name: string }>
}

export async function requireStack(client: Client, name: string): Promise<ListedStack> {
  const [stack] = await client.listStacks({ query: { name, include: 'status' } })
  return stack ?? (await failNotFound({ what: 'stack', name, next: 'brokkr get stacks', names: () => client.items('listStacks', {}) }))
}

/** `name`, or `name/cluster` where several clusters have an agent of that name. */
export async function requireAgent(client: Client, text: string): Promise<Agent> {
  const [name = '', cluster] = text.split('/')
  const found = (await client.listAgents({ query: { name } })).filter((agent) => cluster === undefined || agent.cluster_name === cluster)
  const [first, second] = found
  if (first === undefined)
    return failNotFound({ what: 'agent', name: text, next: 'brokkr get agents', names: () => client.items('listAgents', {}) })
  if (second !== undefined)
    throw new CliError(`several agents are named ${name}`, {
      where: found.map((agent) => agent.cluster_name).join(', '),
      next: `name the cluster too: ${name}/${first.cluster_name}`,
      exitCode: exitCodes.usage,
    })
  return first
}

export async function requireGenerator(client: Client, name: string): Promise<Generator> {
  const [generator] = await client.listGenerators({ query: { name } })
  return (
    generator ??
    (await failNotFound({ what: 'generator', name, next: 'brokkr get generators', names: () => client.items('listGenerators', {}) }))
  )
}

/** The newest version, or the one after the colon: `web:3`. */
export async function requireTemplate(client: Client, text: string): Promise<StackTemplate> {
  const [name = '', version] = text.split(':')
  const versions = await listTemplateVersions(client, name)
  const found = version === undefined ? versions[0] : versions.find((one) => String(one.version) === version)
  return (
    found ??
    (await failNotFound({ what: 'template', name: text, next: 'brokkr get templates', names: () => client.items('listTemplates', {}) }))
  )
}

/** Newest first. */
export async function listTemplateVersions(client: Client, name: string): Promise<StackTemplate[]> {
  const versions: StackTemplate[] = []
  for await (const template of client.items('listTemplates', { query: { name } })) versions.push(template)
  return versions.toSorted((a, b) => b.version - a.version)
}

export async function requireWebhook(client: Client, name: string): Promise<Webhook> {
  for await (const webhook of client.items('listWebhooks', {})) if (webhook.name === name || webhook.id === name) return webhook
  return failNotFound({ what: 'webhook', name, next: 'brokkr get webhooks', names: () => client.items('listWebhooks', {}) })
}

export async function failNotFound({ what, name, next, names }: Lookup): Promise<never> {
  const known: string[] = []
  for await (const one of names()) if (known.push(one.name) >= comparedMax) break
  const similar = suggest(name, known)
  throw new CliError(`${what} not found: ${name}`, {
    next: similar === null ? next : `did you mean ${similar}? All: ${next}`,
    exitCode: exitCodes.notFound,
  })
}

/** Names of agents by id, for lists that contain only ids. */
export async function agentNames(client: Client): Promise<Map<string, string>> {
  const names = new Map<string, string>()
  for await (const agent of client.items('listAgents', { query: { include_deleted: false } })) names.set(agent.id, agent.name)
  return names
}

/** `shop@edge-17`, or a stack alone. */
export function parseAddress(text: string): { readonly stack: string; readonly agent: string | null } {
  const at = text.lastIndexOf('@')
  return at === -1 ? { stack: text, agent: null } : { stack: text.slice(0, at), agent: text.slice(at + 1) }
}

export function requireAddress(text: string): { readonly stack: string; readonly agent: string } {
  const { stack, agent } = parseAddress(text)
  if (stack !== '' && agent !== null && agent !== '') return { stack, agent }
  throw new CliError(`${JSON.stringify(text)} names no agent`, { next: 'give stack and agent as shop@edge-17', exitCode: exitCodes.usage })
}
