// The bytes of a request's body, inflated: counted while they arrive, so that neither a long body nor a small one that
// inflates to gigabytes is ever held beyond its cap, and bounded in time.
import type { IncomingMessage } from 'node:http'
import type { Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { ClientGone } from './client-gone.ts'

export interface BodyLimits {
  readonly capBytes: number
  /** Name of the cap in the answer. */
  readonly capName: string
  readonly timeoutMs: number
}

/** Throws `payload_too_large`, `unsupported_media_type` (an encoding we do not know), `invalid_json` (a broken one) or `timeout`. */
export async function readBody(deps: { clock: Clock }, request: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  // A body over its cap by its own word is refused before a byte of it is read.
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

/** Whether the head announces a body at all. */
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

/** The stream is left open at the cap: its socket still has to carry the answer. By events, because an async iterator costs a small
 *  call more than everything else that is done with its body. */
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
  // Ended or broken before anybody asked: no event would come.
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
  // `close` also follows a body that ended well, while the rest of it is still being inflated.
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
