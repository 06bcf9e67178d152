// How frames look on the wire: one JSON object per line, or the same as server-sent events. A frame is serialised once as a
// line; the other form is made from that line without reading its content again.
import type { WireFrame } from './frames.ts'

export type Form = 'ndjson' | 'sse'

export const contentTypes: Record<Form, string> = { ndjson: 'application/x-ndjson', sse: 'text/event-stream' }

/** By the Accept header, else `usual`. */
export function formOf(accept: string | undefined, usual: Form = 'ndjson'): Form {
  if (/\btext\/event-stream\b/.test(accept ?? '')) return 'sse'
  return /\bapplication\/x-ndjson\b/.test(accept ?? '') ? 'ndjson' : usual
}

/** `{"type":"bookmark","cursor":"…"}` → `event:`, `id:` where the frame carries a cursor, `data:`. */
export function inForm(form: Form, { type, line }: WireFrame): Buffer {
  if (form === 'ndjson') return line
  return Buffer.concat([Buffer.from(`event: ${type}\n${idLine(type, line)}data: `), line, newline])
}

/** Sent first on an event stream: how long a browser waits before it connects again. */
export const sseRetry = Buffer.from('retry: 3000\n\n')

const newline = Buffer.from('\n')
const withCursor: ReadonlySet<string> = new Set(['bookmark', 'snapshot_end', 'bye'])

function idLine(type: string, line: Buffer): string {
  if (!withCursor.has(type)) return ''
  const { cursor } = JSON.parse(line.toString('utf8')) as { cursor: string | null }
  return cursor === null ? '' : `id: ${cursor}\n`
}
