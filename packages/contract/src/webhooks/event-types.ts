// Event types of webhooks, the message, and the patterns of subscriptions.
export const webhookEventTypes = [
  'agent.registered',
  'agent.deregistered',
  'agent.connected',
  'agent.disconnected',
  'stack.created',
  'stack.deleted',
  'stack.held',
  'stack.released',
  'stack.undeleted',
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

/** `*`, a type such as `stack.created`, or a prefix: `deployment.*`. Unknown types are allowed. */
export const isEventPattern = (text: string): boolean => text.length <= 100 && /^(\*|[\w-]+(\.[\w-]+)*\.(\*|[\w-]+))$/.test(text)

export const matchesEvent = (pattern: string, eventType: string): boolean =>
  pattern === '*' || pattern === eventType || (pattern.endsWith('.*') && eventType.startsWith(pattern.slice(0, -1)))

/** The patterns that match no event of this release. */
export const findUnknownPatterns = (patterns: readonly string[]): string[] =>
  patterns.filter((pattern) => !webhookEventTypes.some((type) => matchesEvent(pattern, type)))
