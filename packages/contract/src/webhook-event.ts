// What webhooks can be told of: names, the message, and which names a subscription means.
export const webhookEventTypes = [
  'agent.registered',
  'agent.deregistered',
  'agent.connected',
  'agent.disconnected',
  'stack.created',
  'stack.deleted',
  'deployment.created',
  'deployment.applied',
  'deployment.updated',
  'deployment.failed',
  'deployment.deleted',
  'deployment.drifted',
  'deployment.health.changed',
  'workorder.created',
  'workorder.claimed',
  'workorder.completed',
  'workorder.failed',
] as const
export type WebhookEventType = (typeof webhookEventTypes)[number]

/** The body of a delivery. `id` is the event's: the same in every delivery of it, and in every replay. */
export interface WebhookMessage {
  readonly id: string
  readonly event_type: string
  readonly timestamp: string
  readonly data: Readonly<Record<string, unknown>>
}

/** `*`, a name such as `stack.created`, or all below a word: `deployment.*`. Names nobody knows yet are fine. */
export const isEventPattern = (text: string): boolean => text.length <= 100 && /^(\*|[\w-]+(\.[\w-]+)*\.(\*|[\w-]+))$/.test(text)

export const meansEvent = (pattern: string, eventType: string): boolean =>
  pattern === '*' || pattern === eventType || (pattern.endsWith('.*') && eventType.startsWith(pattern.slice(0, -1)))

/** Those of the patterns that mean nothing this release ever tells. */
export const unknownPatterns = (patterns: readonly string[]): string[] =>
  patterns.filter((pattern) => !webhookEventTypes.some((type) => meansEvent(pattern, type)))
