// Encodes frames for the wire: one JSON object per line, or server-sent events. A frame is serialized once as a line; the event is
// built from that line.
import type { WireFrame } from './frames.ts'

export type StreamFormat = 'ndjson' | 'sse'

export const contentTypes: Record<StreamFormat, string> = { ndjson: 'application/x-ndjson', sse: 'text/event-stream' }

/** Chooses the format by the Accept header. */
export function parseStreamFormat(accept: string | undefined, fallback: StreamFormat = 'ndjson'): StreamFormat {
  if (/\btext\/event-stream\b/.test(accept ?? '')) return 'sse'
  return /\bapplication\/x-ndjson\b/.test(accept ?? '') ? 'ndjson' : fallback
}

/** `{"type":"bookmark","cursor":"…"}` → `event:`, `id:` if the frame has a cursor, `data:`. */
export function encodeFrame(format: StreamFormat, { type, line }: WireFrame): Buffer {
  if (format === 'ndjson') return line
  return Buffer.concat([Buffer.from(`event: ${type}\n${buildIdLine(type, line)}data: `), line, newline])
}

/** First line of an event stream: the reconnect delay of browsers. */
export const sseRetry = Buffer.from('retry: 3000\n\n')

const newline = Buffer.from('\n')
const typesWithCursor: ReadonlySet<string> = new Set(['bookmark', 'snapshot_end', 'bye'])

function buildIdLine(type: string, line: Buffer): string {
  if (!typesWithCursor.has(type)) return ''
  const { cursor } = JSON.parse(line.toString('utf8')) as { cursor: string | null }
  return cursor === null ? '' : `id: ${cursor}\n`
}
