// Registers the agent with the configured generators. The broker allows it if the agent's creation or invite named them. A refusal is
// logged once; other failures are retried.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { GeneratorId } from '@brokkr/contract/wire.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'

export interface RegistrationsDeps {
  readonly client: Client
  readonly log: Log
  readonly generatorIds: readonly string[]
  readonly everyMs: number
}
export interface Registrations extends Loop {
  readonly refused: readonly string[]
}

export function registrationsLoop(deps: RegistrationsDeps): Registrations {
  const pendingIds = new Set(deps.generatorIds)
  const refused = new Set<string>()
  return {
    name: 'registrations',
    everyMs: () => (pendingIds.size === 0 ? Number.POSITIVE_INFINITY : deps.everyMs),
    get refused() {
      return [...refused]
    },
    run: async (signal) => {
      for (const id of pendingIds) {
        const answer = await register(deps, id as GeneratorId, signal)
        if (answer === 'done') refused.delete(id)
        if (answer === 'refused' && !refused.has(id)) deps.log.warn('generator registration refused', { generator_id: id })
        if (answer === 'refused') refused.add(id)
        if (answer !== 'again') pendingIds.delete(id)
      }
    },
  }
}

async function register({ client, log }: RegistrationsDeps, id: GeneratorId, signal: AbortSignal): Promise<'done' | 'refused' | 'again'> {
  try {
    await client.registerAgent({ params: { id }, body: {} }, { signal })
    return 'done'
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ApiError && error.status === 409) return 'done'
    if (error instanceof ApiError && error.status === 403) return 'refused'
    log.warn('generator registration failed', { generator_id: id, why: errorText(error) })
    return 'again'
  }
}
