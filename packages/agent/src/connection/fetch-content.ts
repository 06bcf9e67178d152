// Fetches content by URL and verifies its checksum. Retries until it succeeds or the stream ends; meanwhile only the cursor waits.
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { contentBytesMax, sha256 } from '../desired-state/cached-manifest.ts'
import type { BrokerHttp } from './broker-http.ts'
import type { ContentRequest } from './effect.ts'

export interface ContentDeps {
  readonly broker: Pick<BrokerHttp, 'text'>
  readonly clock: Clock
  readonly log: Log
}
const pause = { baseMs: 500, maxMs: 60_000, jitter: 'equal' } as const

/** Rejects only with the signal's reason. */
export async function fetchContent(deps: ContentDeps, content: ContentRequest, signal: AbortSignal): Promise<string> {
  for (let failures = 0; ; failures++) {
    const result = await tryFetch(deps, content, signal)
    if ('text' in result) return result.text
    signal.throwIfAborted()
    if (failures === 0) deps.log.warn('manifest fetch retrying', { object_id: content.objectId, why: result.why })
    await deps.clock.sleep(backoffDelayMs(pause, failures), signal)
  }
}

async function tryFetch(
  { broker }: ContentDeps,
  content: ContentRequest,
  signal: AbortSignal,
): Promise<{ text: string } | { why: string }> {
  try {
    const text = await broker.text(content.path, { accept: 'application/yaml', bytesMax: contentBytesMax, signal })
    return sha256(text) === content.checksum ? { text } : { why: 'manifest checksum mismatch' }
  } catch (error) {
    return { why: errorText(error) }
  }
}
