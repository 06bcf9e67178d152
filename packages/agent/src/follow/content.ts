// Content that travels by address: fetched, and hashed before it counts. It is tried until it comes right or the stream it
// belongs to ends; meanwhile the cursor waits and everything else goes on.
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { BrokerHttp } from '../broker-http.ts'
import type { ContentWanted } from './effect.ts'
import { contentBytesMax, sha256 } from './held-object.ts'

export interface ContentDeps {
  readonly broker: Pick<BrokerHttp, 'text'>
  readonly clock: Clock
  readonly log: Log
}
const pause = { baseMs: 500, maxMs: 60_000, jitter: 'equal' } as const

/** Rejects with the signal's reason and nothing else. */
export async function fetchContent(deps: ContentDeps, content: ContentWanted, signal: AbortSignal): Promise<string> {
  for (let failures = 0; ; failures++) {
    const problem = await attempt(deps, content, signal)
    if ('text' in problem) return problem.text
    signal.throwIfAborted()
    if (failures === 0) deps.log.warn('content not usable', { object_id: content.objectId, why: problem.why })
    await deps.clock.sleep(backoffDelayMs(pause, failures), signal)
  }
}

async function attempt({ broker }: ContentDeps, content: ContentWanted, signal: AbortSignal): Promise<{ text: string } | { why: string }> {
  try {
    const text = await broker.text(content.path, { accept: 'application/yaml', bytesMax: contentBytesMax, signal })
    return sha256(text) === content.checksum ? { text } : { why: 'its checksum is not the one that was named' }
  } catch (error) {
    return { why: errorText(error) }
  }
}
