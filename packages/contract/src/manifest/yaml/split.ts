// Cuts a manifest into documents at its separator lines, exactly as kubectl does: by line, before any YAML is read.
import { syntaxError } from '../manifest-error.ts'

export interface Chunk {
  /** Ends with a line feed; line ends are line feeds. */
  readonly text: string
  /** Line of the manifest on which the text starts. */
  readonly line: number
  /** No separator stands before it. */
  readonly isFirst: boolean
}

const separator = '---'
const byteOrderMark = '\uFEFF'

export function* splitDocuments(manifest: string): Generator<Chunk> {
  const text = manifest.startsWith(byteOrderMark) ? manifest.slice(1) : manifest
  let start = 0
  let line = 1
  for (let at = text.startsWith(separator) ? 0 : nextSeparator(text, 0); at >= 0; at = nextSeparator(text, at)) {
    if (at > start) yield toChunk(text.slice(start, at), line, start === 0)
    line += countLines(text, start, at)
    start = endOfSeparator(text, at, line)
    line += 1
  }
  if (start < text.length) yield toChunk(text.slice(start), line, start === 0)
}

/** A separator line may hold a comment and nothing else. */
function endOfSeparator(text: string, at: number, line: number): number {
  const lineFeed = text.indexOf('\n', at)
  const end = lineFeed < 0 ? text.length : lineFeed
  const rest = text.slice(at + separator.length, end).trim()
  if (rest === '' || rest.startsWith('#')) return Math.min(end + 1, text.length)
  throw syntaxError({ line, column: 1 }, 'text follows the document separator', 'put it on the next line')
}

const nextSeparator = (text: string, from: number): number => {
  const found = text.indexOf(`\n${separator}`, from)
  return found < 0 ? -1 : found + 1
}

function countLines(text: string, from: number, to: number): number {
  let lines = 0
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) lines += 1
  return lines
}

function toChunk(part: string, line: number, isFirst: boolean): Chunk {
  const body = part.startsWith(byteOrderMark) ? part.slice(1) : part
  const text = body.includes('\r') ? body.replaceAll('\r\n', '\n') : body
  return { text: text.endsWith('\n') ? text : `${text}\n`, line, isFirst }
}

// Control characters, and the three characters that YAML 1.1 takes for line ends and YAML 1.2 does not: what stands behind one in a
// comment or a text would be read by some programs and not by others.
const forbidden = /(?![\t\n])[\p{Cc}\u2028\u2029\uFFFE\uFFFF]/u

/** JSON has its own rule, so this is for YAML alone. */
export function checkCharacters(chunk: Chunk): void {
  const at = chunk.text.search(forbidden)
  if (at < 0) return
  const line = chunk.line + countLines(chunk.text, 0, at)
  const column = at - chunk.text.lastIndexOf('\n', at)
  throw syntaxError(
    { line, column },
    'a control character or a line end other than LF and CRLF',
    'remove it, or write it as an escape in double quotes',
  )
}
