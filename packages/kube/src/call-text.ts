// A call as it stands on the wire: its first line and its headers. Pure.
import { KubeError } from './api-error.ts'

export type CallHeaders = Readonly<Record<string, string | readonly string[]>>

/** A blank or a line break would end the path, and what follows would be a header of somebody else's making. */
const NOT_IN_PATH = /[^\x21-\x7e]/
const NOT_IN_NAME = /[^!#$%&'*+\-.^_`|~\w]/
const NOT_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/

export function firstLine(method: string, path: string): string {
  if (NOT_IN_PATH.test(path))
    throw new KubeError(`${method} ${JSON.stringify(path)}: the path holds what no path may hold`, { reason: 'BadRequest' })
  return `${method} ${path} HTTP/1.1\r\n`
}

export function headerLines(headers: CallHeaders): string {
  let text = ''
  for (const [name, value] of Object.entries(headers))
    for (const one of typeof value === 'string' ? [value] : value) text += headerLine(name, one)
  return text
}

/** What stands in a value may be a credential, so that it is never told. */
function headerLine(name: string, value: string): string {
  if (NOT_IN_NAME.test(name) || NOT_IN_VALUE.test(value))
    throw new KubeError(`the header ${JSON.stringify(name)} holds what no header may hold, such as a line break`, { reason: 'BadRequest' })
  return `${name}: ${value}\r\n`
}

/** The lines of the calls of late: most have the same ones. `key` must tell all that they are made of. */
export class KnownLines {
  readonly #known = new Map<string, string>()

  of(key: string, headers: () => CallHeaders): string {
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const lines = headerLines(headers())
    // A token that was renewed leaves lines behind that nobody asks for again.
    if (this.#known.size >= KNOWN_MAX) this.#known.clear()
    this.#known.set(key, lines)
    return lines
  }
}

const KNOWN_MAX = 16
