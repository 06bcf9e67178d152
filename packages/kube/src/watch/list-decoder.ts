// Decodes a list while the rest of it arrives: returns objects as soon as a batch of them is complete. The text is cut before `{"metadata":`
// or the beginning of the first item. A cut inside an item leaves brackets open, which the parser detects; from then on the list is
// decoded in one piece. Pure.
import { fieldsAt, textAt, valueAt } from '../client/fields.ts'
import { decodeJson } from '../client/json.ts'
import type { KubeObject } from '../client/object.ts'
import { decodeHead } from './list-page.ts'

/** Large enough for one parser call, small enough to be decoded before the next batch has arrived. */
const PORTION_BYTES = 128 * 1024
const HEAD_BYTES = 16 * 1024
/** Start of an item in lists of an API server; custom resources have their kind first. */
const ITEM = /^\{(?:"(?:apiVersion|kind)":"[^"\\]*",)*"metadata":\{/

export class ListTooLarge extends Error {
  override readonly name = 'ListTooLarge'
}

export class ListDecoder {
  /** Total bytes received. */
  bytes = 0
  readonly #bytesMax: number
  #pending: Buffer[] = []
  #pendingBytes = 0
  #room = Buffer.alloc(0)
  #head: unknown
  /** Separator of items; undefined before the first cut, or if the text cannot be cut. */
  #between: Buffer | undefined
  #looked = false
  /** Bytes to collect before the next search for a cut. */
  #enough = PORTION_BYTES

  /** `bytesMax` limits the text that waits to be decoded, not the list. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Returns the objects that these bytes complete, if there are enough of them. The decoder keeps the bytes. */
  push(bytes: Buffer): KubeObject[] {
    this.bytes += bytes.length
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.length
    if (this.#pendingBytes > this.#bytesMax)
      throw new ListTooLarge(`more than ${this.#bytesMax} bytes of a list without the end of an item`)
    if (this.#looked ? this.#between === undefined : this.#pendingBytes < HEAD_BYTES) return []
    if (!this.#looked) this.#look()
    return this.#between && this.#pendingBytes >= this.#enough ? this.#cut(this.#between) : []
  }

  /** Returns the remaining objects and the list's metadata. Throws if the text is not a list. */
  end(): { items: KubeObject[]; resourceVersion: string; next: string | undefined } {
    const rest = this.#gather().toString('utf8')
    const list = decodeJson(this.#head === undefined ? rest : `{"items":${rest}`)
    const items = valueAt(list, 'items') ?? []
    const metadata = fieldsAt(this.#head ?? list, 'metadata')
    if (metadata === undefined || !Array.isArray(items)) throw new SyntaxError('the response is not a list')
    const text = (field: string) => textAt(metadata, field)
    return { items: items as KubeObject[], resourceVersion: text('resourceVersion') ?? '', next: text('continue') || undefined }
  }

  /** Reads the text before the items, and how items begin. */
  #look(): void {
    this.#looked = true
    const bytes = this.#gather()
    const head = decodeHead(bytes.toString('latin1', 0, HEAD_BYTES))
    const item = head && ITEM.exec(bytes.toString('latin1', head.length, HEAD_BYTES))
    // Byte and character positions are equal only if the text is ASCII.
    if (!head || !item || /[^\0-\x7f]/.test(head.text + item[0])) return this.#keep(bytes)
    this.#head = head.value
    this.#between = Buffer.from(`},${item[0]}`, 'latin1')
    // Includes the bracket before the first item.
    this.#keep(bytes.subarray(head.length - 1))
  }

  /** The pending text begins with a bracket, and at a cut a bracket replaces the comma. Building a new text per batch would create as much
   *  garbage as the objects.  */
  #cut(between: Buffer): KubeObject[] {
    const bytes = this.#gather()
    const comma = bytes.lastIndexOf(between) + 1
    const items = comma === 0 ? undefined : decodeItems(closedAt(bytes, comma))
    // The separator also occurs inside an item, so further cuts cannot be trusted.
    if (comma > 0 && items === undefined) this.#between = undefined
    // No separator: the item is larger than a batch. Searching it again for every packet would cost its size each time.
    this.#enough = items ? PORTION_BYTES : bytes.length * 2
    if (items) bytes[comma] = OPEN
    this.#keep(items ? bytes.subarray(comma) : bytes)
    return items ?? []
  }

  /** Joins the pending bytes in a reused buffer: moves the rest of the last batch to the front and appends new bytes. */
  #gather(): Buffer {
    const [pieces, bytes] = [this.#pending, this.#pendingBytes]
    const [first] = pieces
    this.#pending = []
    this.#pendingBytes = 0
    if (pieces.length === 1 && first) return first
    if (this.#room.length < bytes) this.#room = Buffer.allocUnsafeSlow(bytes + PORTION_BYTES)
    let at = 0
    for (const piece of pieces) at += piece.copy(this.#room, at)
    return this.#room.subarray(0, bytes)
  }

  #keep(bytes: Buffer): void {
    this.#pending = [bytes]
    this.#pendingBytes = bytes.length
  }
}

const [OPEN, CLOSE, COMMA] = [0x5b, 0x5d, 0x2c]

function closedAt(bytes: Buffer, comma: number): string {
  bytes[comma] = CLOSE
  const text = bytes.toString('utf8', 0, comma + 1)
  bytes[comma] = COMMA
  return text
}

function decodeItems(text: string): KubeObject[] | undefined {
  try {
    return decodeJson(text) as KubeObject[]
  } catch {
    return undefined
  }
}
