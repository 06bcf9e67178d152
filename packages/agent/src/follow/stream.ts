// One stream of frames over HTTP: lines of bounded length, silence that counts as death, garbage that ends it. Whatever goes
// wrong is thrown by its own name, because each is answered differently.
import { fillPath, queryText } from '@brokkr/contract/endpoint.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { agentStream, type Frame, parseFrame } from '@brokkr/contract/stream.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { LineSplitter, LineTooLong } from '@brokkr/kube/lines.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { BrokerHttp } from '../broker-http.ts'
import { BrokenFrame } from './effect.ts'

export const lineBytesMax = 8 * 1024 * 1024

export interface StreamRequest {
  readonly agentId: AgentId
  readonly cursor?: string
  /** The newest cursor there was, where a list is wanted all the same: it shows which history we come from. */
  readonly seen?: string
  readonly reason?: string
  readonly count?: number
  readonly digest?: string
  /** `25s`: a long poll. */
  readonly wait?: string
}
export interface StreamTimes {
  /** Without the first frame for so long, the stream is held back somewhere. */
  readonly firstMs: number
  /** Without another frame for so long, it is dead. */
  readonly deadMs: number
  readonly signal: AbortSignal
}
/** The broker answered, and it was no. */
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
/** Nothing came for too long: neither end of the line knows it, but it is dead. */
export class StreamSilent extends Error {
  override readonly name = 'StreamSilent'
}

/** Accepted, and yet no frame: somebody on the way keeps what the broker sends. */
export class StreamMute extends Error {
  override readonly name = 'StreamMute'
}

/** Frames as they come; null for a type this release does not know. Ends when the broker ends it. Leaving the loop closes it. */
export async function* readStream(
  deps: { broker: Pick<BrokerHttp, 'open'>; clock: Clock },
  request: StreamRequest,
  options: StreamTimes,
): AsyncGenerator<Frame | null> {
  const dead = new AbortController()
  const silence = startSilence(deps.clock, options, dead)
  const { agentId, ...query } = request
  const path = fillPath(agentStream.path, { id: agentId }) + queryText(query)
  try {
    const answer = await deps.broker.open(path, { accept: 'application/x-ndjson', signal: AbortSignal.any([options.signal, dead.signal]) })
    try {
      if (!/\bndjson\b/.test(answer.header('content-type') ?? '')) throw new BrokenFrame('the answer is not a stream of frames')
      const lines = new LineSplitter(lineBytesMax)
      for await (const chunk of answer.body) {
        for (const line of lines.push(chunk)) {
          silence.touch()
          yield frameOf(line)
        }
      }
    } finally {
      answer.close()
    }
  } catch (error) {
    options.signal.throwIfAborted()
    throw dead.signal.aborted ? dead.signal.reason : named(error)
  } finally {
    silence.stop()
  }
}

function frameOf(line: string): Frame | null {
  try {
    return parseFrame(line)
  } catch (error) {
    // The message of a failed JSON.parse quotes the text, and the text may be a manifest.
    throw new BrokenFrame(error instanceof TypeError ? error.message : `a line of ${line.length} characters is not JSON`)
  }
}

function startSilence(clock: Clock, { firstMs, deadMs }: StreamTimes, dead: AbortController): { touch(): void; stop(): void } {
  let timer = clock.setTimer(firstMs, () => dead.abort(new StreamMute(`no frame came at all within ${firstMs} ms`)))
  return {
    touch: () => {
      timer.cancel()
      timer = clock.setTimer(deadMs, () => dead.abort(new StreamSilent(`no frame came for ${deadMs} ms`)))
    },
    stop: () => timer.cancel(),
  }
}

function named(error: unknown): unknown {
  if (error instanceof ApiError) return new StreamRefused(error)
  return error instanceof LineTooLong ? new BrokenFrame(error.message) : error
}
