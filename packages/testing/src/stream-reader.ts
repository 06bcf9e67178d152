// A follower of the agent stream for tests: reads frames as they come and remembers them in order. It knows the wire and
// nothing of the agent.

import type { IncomingMessage } from 'node:http'
import { request } from 'node:http'
import { type Frame, type FrameOf, parseFrame } from '@brokkr/contract/feed/stream.ts'
import { waitFor } from './wait-for.ts'

export type StreamReader = {
  readonly frames: Frame[]
  readonly status: number
  readonly headers: IncomingMessage['headers']
  /** Waits for a frame of this type that satisfies `is`, among those that came and those that come. */
  frame<T extends Frame['type']>(type: T, is?: (frame: FrameOf<T>) => boolean): Promise<FrameOf<T>>
  /** The first bookmark after this frame; an earlier one does not cover it. */
  bookmarkAfter(frame: Frame): Promise<FrameOf<'bookmark'>>
  /** Desired state after all frames so far: stack → rev and object. */
  wanted(): Map<string, { rev: number; objectId: string | null }>
  readonly ended: Promise<void>
  pause(): void
  resume(): void
  close(): void
}

export async function readStream(
  url: string,
  options: { agentId: string; pak: string; cursor?: string; query?: Record<string, string>; onFrame?: (frame: Frame) => void },
): Promise<StreamReader> {
  const query = new URLSearchParams({ ...(options.cursor === undefined ? {} : { cursor: options.cursor }), ...options.query })
  return readFrames(`${url}/api/v1/agents/${options.agentId}/stream?${query}`, { authorization: `Bearer ${options.pak}` }, options.onFrame)
}

/** A watch of these scopes, as lines. */
export function readWatch(url: string, options: { pak: string; scopes: readonly string[]; cursor?: string }): Promise<StreamReader> {
  const query = new URLSearchParams(options.scopes.map((scope): [string, string] => ['scope', scope]))
  if (options.cursor !== undefined) query.set('cursor', options.cursor)
  return readFrames(`${url}/api/v1/watch?${query}`, { authorization: `Bearer ${options.pak}`, accept: 'application/x-ndjson' })
}

async function readFrames(url: string, headers: Record<string, string>, onFrame?: (frame: Frame) => void): Promise<StreamReader> {
  const response = await open(url, headers)
  const frames: Frame[] = []
  // Held shut, nothing more is taken from the socket, which is how a consumer stops reading.
  let gate: PromiseWithResolvers<void> | null = null
  const end = read(
    response,
    () => gate?.promise,
    (line) => {
      const frame = response.statusCode === 200 ? parseFrame(line) : null
      if (frame === null) return
      frames.push(frame)
      onFrame?.(frame)
    },
  )
  const frame: StreamReader['frame'] = (type, is = () => true) =>
    waitFor(
      `frame ${type}`,
      () => frames.find((one): one is FrameOf<typeof type> => one.type === type && is(one as FrameOf<typeof type>)),
      { onTimeout: () => `frames so far: ${frames.map(summarizeFrame).join(' ')}` },
    )
  return {
    frames,
    status: response.statusCode ?? 0,
    headers: response.headers,
    ended: end,
    wanted: () => applyFrame(frames),
    frame,
    bookmarkAfter: (earlier) => frame('bookmark', (one) => frames.indexOf(one) > frames.indexOf(earlier)),
    pause: () => {
      gate ??= Promise.withResolvers<void>()
    },
    resume: () => {
      gate?.resolve()
      gate = null
    },
    close: () => void response.destroy(),
  }
}

/** Adds the reason of a frame, for example of a bye. */
const summarizeFrame = (frame: Frame): string => ('reason' in frame ? `${frame.type}(${frame.reason})` : frame.type)

function open(url: string, headers: Record<string, string>): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { headers }, resolve)
    outgoing.on('error', reject)
    outgoing.end()
  })
}

async function read(response: IncomingMessage, gate: () => Promise<void> | undefined, onLine: (line: string) => void): Promise<void> {
  let rest = ''
  response.setEncoding('utf8')
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) onLine(line)
      await gate()
    }
  } catch {
    // A cut stream simply ends; tests look at the frames that came.
  }
}

function applyFrame(frames: readonly Frame[]): Map<string, { rev: number; objectId: string | null }> {
  const desired = new Map<string, { rev: number; objectId: string | null }>()
  for (const frame of frames) {
    if (frame.type === 'put') desired.set(frame.stack_id, { rev: frame.rev, objectId: frame.object?.id ?? null })
    else if (frame.type === 'skip') desired.set(frame.stack_id, { rev: frame.rev, objectId: frame.object_id })
    else if (frame.type === 'del') desired.delete(frame.stack_id)
  }
  return desired
}
