// Reads and inflates a request body. Bytes are counted while they arrive, so that neither a long body nor a compressed one that inflates
// to gigabytes exceeds its limit in memory; the time is limited too.
import type { IncomingMessage } from 'node:http'
import type { Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface BodyLimits {
  readonly capBytes: number
  /** Name of the limit in the response. */
  readonly capName: string
  readonly timeoutMs: number
}

/** Throws `payload_too_large`, `unsupported_media_type` (unknown encoding), `invalid_json` (corrupt encoding) or `timeout`. */
export async function readBody(deps: { clock: Clock }, request: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  // A body whose Content-Length exceeds the limit is rejected before it is read.
  if (Number(request.headers['content-length']) > limits.capBytes) throw tooLarge(limits)
  const inflate = inflaterFor(request.headers['content-encoding'])
  const late = Promise.withResolvers<never>()
  const timer = deps.clock.setTimer(limits.timeoutMs, () => late.reject(tooSlow(limits)))
  try {
    return await Promise.race([inflate === null ? collect(request, limits) : collectInflated(request, inflate, limits), late.promise])
  } catch (error) {
    throw request.destroyed && !request.readableEnded ? new ClientGone({ cause: error }) : error
  } finally {
    timer.cancel()
    inflate?.destroy()
  }
}

/** Whether the request has a body. */
export function announcesBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length']
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

function inflaterFor(encoding: string | undefined): Transform | null {
  switch (encoding?.trim().toLowerCase() ?? '') {
    case '':
    case 'identity':
      return null
    case 'gzip':
    case 'x-gzip':
      return createGunzip()
    case 'deflate':
      return createInflate()
    case 'br':
      return createBrotliDecompress()
    default:
      throw new ApiError('unsupported_media_type', 'the body has an unknown Content-Encoding; send gzip, br, deflate or none')
  }
}

/** At the limit the stream stays open, because its socket must carry the response. Uses events: an async iterator would cost a small
 *  request more than all other work on its body. */
function collect(source: Readable, limits: BodyLimits): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  let bytes = 0
  const onData = (chunk: Buffer) => {
    bytes += chunk.length
    chunks.push(chunk)
    if (bytes > limits.capBytes) done(() => reject(tooLarge(limits)))
  }
  const onEnd = () => done(() => resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, bytes)))
  const onError = (error: Error) => done(() => reject(error))
  const onClose = () => done(() => reject(new ClientGone()))
  const done = (settle: () => void) => {
    source.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose).pause()
    settle()
  }
  // Ended or failed before this call: no event would follow.
  if (source.readableEnded || source.destroyed) onClose()
  else source.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose)
  return promise
}

async function collectInflated(request: IncomingMessage, inflate: Transform, limits: BodyLimits): Promise<Buffer> {
  let packedBytes = 0
  const countPacked = (chunk: Buffer) => {
    packedBytes += chunk.length
    if (packedBytes > limits.capBytes) inflate.destroy(tooLarge(limits))
  }
  // `close` also follows a complete body while its rest is still being inflated.
  const cut = () => void (request.readableEnded || inflate.destroy(new ClientGone()))
  request.on('data', countPacked).once('close', cut)
  try {
    return await collect(request.pipe(inflate), limits)
  } catch (error) {
    if (error instanceof ApiError || error instanceof ClientGone) throw error
    throw new ApiError('invalid_json', 'the body could not be inflated', { cause: error })
  } finally {
    request.unpipe(inflate).off('data', countPacked).off('close', cut)
    request.pause()
  }
}

function tooLarge({ capBytes, capName }: BodyLimits): ApiError {
  return new ApiError('payload_too_large', `the body is larger than ${capBytes} bytes`, { details: { limit: capName, max: capBytes } })
}

function tooSlow({ timeoutMs }: BodyLimits): ApiError {
  return new ApiError('timeout', `the body did not arrive within ${timeoutMs / 1000} s`, {
    details: { limit: 'body_seconds', max: timeoutMs / 1000 },
  })
}

// The client disconnected before the response: not an error of the broker, and no response is possible.
export class ClientGone extends Error {
  override readonly name = 'ClientGone'

  constructor(options?: { cause?: unknown }) {
    super('the client has gone', options)
  }
}
