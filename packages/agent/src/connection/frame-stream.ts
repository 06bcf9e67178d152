// Reads one stream of frames over HTTP, with limits on line length and silence. Each failure has its own error class, because each needs
// another reaction.
import { fillPath, queryText } from '@brokkr/contract/endpoint.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import { agentStream, type Frame, parseFrame } from '@brokkr/contract/feed/stream.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { LineSplitter, LineTooLong } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { BrokerHttp } from './broker-http.ts'
import { BrokenFrame } from './effect.ts'

const lineBytesMax = 8 * 1024 * 1024

export interface StreamRequest {
  readonly agentId: AgentId
  readonly cursor?: string
  /** The latest known cursor, sent with a snapshot request so that the broker recognizes the epoch. */
  readonly seen?: string
  readonly reason?: string
  readonly count?: number
  readonly digest?: string
  /** `25s`: a long poll. */
  readonly wait?: string
}
export interface StreamTimes {
  /** Time limit of the first frame; after it an intermediary probably buffers the stream. */
  readonly firstMs: number
  /** Time limit between frames; after it the stream is dead. */
  readonly deadMs: number
  readonly signal: AbortSignal
}
/** The broker refused the stream. */
export class StreamRefused extends Error {
  override readonly name = 'StreamRefused'
  readonly status: number
  readonly code: string
  readonly retryAfterMs: number | undefined

  constructor(error: ApiError) {
    super(`the broker refused the stream: ${error.message}`, { cause: error })
    const { status } = error.details ?? {}
    this.status = typeof status === 'number' ? status : error.status
    this.code = error.code
    this.retryAfterMs = error.retryAfterSeconds === undefined ? undefined : error.retryAfterSeconds * 1000
  }
}
/** No frame within the time limit: the connection is half-open. */
export class StreamTimeout extends Error {
  override readonly name = 'StreamSilent'
}

/** Accepted, but the first frame did not arrive: an intermediary buffers the stream. */
export class FirstFrameTimeout extends Error {
  override readonly name = 'StreamMute'
}

/** Yields frames as they arrive; null for an unknown type. Leaving the loop closes the stream. */
export async function* readFrames(
  deps: { broker: Pick<BrokerHttp, 'open'>; clock: Clock },
  request: StreamRequest,
  options: StreamTimes,
): AsyncGenerator<Frame | null> {
  const dead = new AbortController()
  const timeout = startTimeout(deps.clock, options, dead)
  const { agentId, ...query } = request
  const path = fillPath(agentStream.path, { id: agentId }) + queryText(query)
  try {
    const response = await deps.broker.open(path, {
      accept: 'application/x-ndjson',
      signal: AbortSignal.any([options.signal, dead.signal]),
    })
    try {
      if (!/\bndjson\b/.test(response.header('content-type') ?? '')) throw new BrokenFrame('the answer is not a stream of frames')
      const lines = new LineSplitter(lineBytesMax)
      for await (const chunk of response.body) {
        for (const line of lines.push(chunk)) {
          timeout.touch()
          yield toFrame(line)
        }
      }
    } finally {
      response.close()
    }
  } catch (error) {
    options.signal.throwIfAborted()
    throw dead.signal.aborted ? dead.signal.reason : toStreamError(error)
  } finally {
    timeout.stop()
  }
}

function toFrame(line: string): Frame | null {
  try {
    return parseFrame(line)
  } catch (error) {
    // The message of a failed JSON.parse quotes the text, which can be a manifest.
    throw new BrokenFrame(error instanceof TypeError ? error.message : `a line of ${line.length} characters is not JSON`)
  }
}

function startTimeout(clock: Clock, { firstMs, deadMs }: StreamTimes, dead: AbortController): { touch(): void; stop(): void } {
  let timer = clock.setTimer(firstMs, () => dead.abort(new FirstFrameTimeout(`no frame came at all within ${firstMs} ms`)))
  return {
    touch: () => {
      timer.cancel()
      timer = clock.setTimer(deadMs, () => dead.abort(new StreamTimeout(`no frame came for ${deadMs} ms`)))
    },
    stop: () => timer.cancel(),
  }
}

function toStreamError(error: unknown): unknown {
  if (error instanceof ApiError) return new StreamRefused(error)
  return error instanceof LineTooLong ? new BrokenFrame(error.message) : error
}
