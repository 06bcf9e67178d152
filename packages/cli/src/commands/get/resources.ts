// All kinds of resources by the words that people type; the code of one is loaded on use.
import { CliError, exitCodes } from '../../output.ts'
import { suggest } from '../../suggest.ts'
import type { Resource } from './resource.ts'

export const resources: Readonly<Record<string, () => Promise<Resource>>> = {
  stacks: async () => (await import('../stacks/resource.ts')).stacks,
  agents: async () => (await import('../agents/resource.ts')).agents,
  generators: async () => (await import('../generators/resource.ts')).generators,
  templates: async () => (await import('../templates/resource.ts')).templates,
  'work-orders': async () => (await import('../work-orders/resource.ts')).workOrders,
  webhooks: async () => (await import('../webhooks/resource.ts')).webhooks,
  paks: async () => (await import('../access/resource.ts')).paks,
  invites: async () => (await import('../access/resource.ts')).invites,
}

/** Accepts the singular, too. */
export function requireResource(noun: string): Promise<Resource> {
  const plural = Object.hasOwn(resources, noun) ? noun : `${noun}s`
  if (Object.hasOwn(resources, plural)) return resources[plural]!()
  const similar = suggest(noun, Object.keys(resources))
  throw new CliError(`unknown resource type: ${noun}`, {
    next: `${similar === null ? '' : `did you mean ${similar}? `}brokkr get ${Object.keys(resources).join('|')}`,
    exitCode: exitCodes.usage,
  })
}
