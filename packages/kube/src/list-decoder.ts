// Decodes a list while the rest of it is still on its way: bytes in, objects out as soon as a good portion of them is complete. The text
// is cut before `{"metadata":` or whatever the first item begins with; a cut inside an item would leave brackets open, which the parser
// notices, and from then on the list is decoded in one piece. Pure.
import { fieldsAt, textAt, valueAt } from './fields.ts'
import { decodeJson } from './json.ts'
import { headOf } from './list-page.ts'
import type { KubeObject } from './object.ts'

/** Enough to be worth a call of the parser, little enough to be done before the next has come. */
const PORTION_BYTES = 128 * 1024
const HEAD_BYTES = 16 * 1024
/** What an item begins with in every list that an API server writes; custom resources tell their kind first. */
const ITEM = /^\{(?:"(?:apiVersion|kind)":"[^"\\]*",)*"metadata":\{/

export class ListTooLarge extends Error {
  override readonly name = 'ListTooLarge'
}

export class ListDecoder {
  /** Bytes of all that was pushed. */
  bytes = 0
  readonly #bytesMax: number
  #pending: Buffer[] = []
  #pendingBytes = 0
  #room = Buffer.alloc(0)
  #head: unknown
  /** What stands between two items; undefined while or because the text is not cut. */
  #between: Buffer | undefined
  #looked = false
  /** Bytes that must wait before the next cut is looked for. */
  #enough = PORTION_BYTES

  /** `bytesMax` bounds what waits to be decoded, not the list. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** The objects that these bytes completed, if there are enough of them already. The bytes are the decoder's from now on. */
  push(bytes: Buffer): KubeObject[] {
    this.bytes += bytes.length
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.length
    if (this.#pendingBytes > this.#bytesMax) throw new ListTooLarge(`more than ${this.#bytesMax} bytes of a list cannot be decoded apart`)
    if (this.#looked ? this.#between === undefined : this.#pendingBytes < HEAD_BYTES) return []
    if (!this.#looked) this.#look()
    return this.#between && this.#pendingBytes >= this.#enough ? this.#cut(this.#between) : []
  }

  /** The rest of the objects, and what the list says of itself. Throws what is no list. */
  end(): { items: KubeObject[]; resourceVersion: string; next: string | undefined } {
    const rest = this.#gather().toString('utf8')
    const list = decodeJson(this.#head === undefined ? rest : `{"items":${rest}`)
    const items = valueAt(list, 'items') ?? []
    const metadata = fieldsAt(this.#head ?? list, 'metadata')
    if (metadata === undefined || !Array.isArray(items)) throw new SyntaxError('the answer is not a list')
    const text = (field: string) => textAt(metadata, field)
    return { items: items as KubeObject[], resourceVersion: text('resourceVersion') ?? '', next: text('continue') || undefined }
  }

  /** Reads what stands before the items, and how they begin. */
  #look(): void {
    this.#looked = true
    const bytes = this.#gather()
    const head = headOf(bytes.toString('latin1', 0, HEAD_BYTES))
    const item = head && ITEM.exec(bytes.toString('latin1', head.length, HEAD_BYTES))
    // Bytes and characters are the same here only as long as all of them are ASCII.
    if (!head || !item || /[^\0-\x7f]/.test(head.text + item[0])) return this.#keep(bytes)
    this.#head = head.value
    this.#between = Buffer.from(`},${item[0]}`, 'latin1')
    // With the bracket before the first of them.
    this.#keep(bytes.subarray(head.length - 1))
  }

  /** What waits begins with a bracket, and where it is cut another takes the place of the comma: text that is put together anew for every
   *  portion would be as much garbage as the objects are. */
  #cut(between: Buffer): KubeObject[] {
    const bytes = this.#gather()
    const comma = bytes.lastIndexOf(between) + 1
    const items = comma === 0 ? undefined : decodeItems(closedAt(bytes, comma))
    // Found within an item: so would the next, and nobody knows which is not.
    if (comma > 0 && items === undefined) this.#between = undefined
    // Not found: an item that is larger than a portion. Looking at it again for every packet would cost its size each time.
    this.#enough = items ? PORTION_BYTES : bytes.length * 2
    if (items) bytes[comma] = OPEN
    this.#keep(items ? bytes.subarray(comma) : bytes)
    return items ?? []
  }

  /** In one piece, in memory that is used again and again: the rest of the last portion is moved to its front, what came since is put behind. */
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
