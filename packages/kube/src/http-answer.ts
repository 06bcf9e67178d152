// One answer of HTTP/1.1, read out of the bytes of its connection as they come. Mostly all of it comes at once, and then nothing is
// copied. Knows what an API server and the proxies before it may send, and takes everything else for broken. Pure.

/** What came is no answer, or is cut in a place where nobody can tell what is missing. */
export class BrokenAnswer extends Error {
  override readonly name = 'BrokenAnswer'
  readonly code = 'EBADANSWER'
}

const HEAD_BYTES_MAX = 64 * 1024
const LINE_BYTES_MAX = 4 * 1024
const none = Buffer.alloc(0)

type Part = 'head' | 'length' | 'size' | 'chunk' | 'chunk end' | 'trailer' | 'until close' | 'done'

export class AnswerReader {
  status = 0
  headers: Record<string, string | string[]> = {}
  /** Of the body, so far. */
  bytes = 0
  /** Another call may follow on the same connection. */
  isKept = true
  #part: Part = 'head'
  /** The start of a head or a line that is not complete. */
  #begun = none
  #pieces: Buffer[] = []
  /** Of the body or the chunk that is being read. */
  #left = 0

  /** True: the answer is complete, and `body` may point into these bytes. Until then nothing is kept of them but copies, so that whoever
   *  reads a connection may use the same memory for what comes next. */
  push(bytes: Buffer): boolean {
    const all = this.#begun.length > 0 ? Buffer.concat([this.#begun, bytes]) : bytes
    const known = this.#pieces.length
    this.#begun = none
    let at = 0
    while (this.#part !== 'done' && at < all.length) {
      const next = this.#step(all, at)
      if (next === undefined) break
      at = next
    }
    if (this.#part !== 'done') {
      for (let piece = known; piece < this.#pieces.length; piece++) this.#pieces[piece] = Buffer.from(this.#pieces[piece] as Buffer)
      this.#begun = Buffer.from(all.subarray(at))
      return false
    }
    // Whatever follows was not asked for, and belongs to nobody.
    if (at < all.length) this.isKept = false
    return true
  }

  /** The connection has ended. True: so has the answer, which says nowhere how long it is. */
  end(): boolean {
    this.isKept = false
    if (this.#part === 'until close') this.#part = 'done'
    return this.#part === 'done'
  }

  body(): Buffer {
    const [first] = this.#pieces
    return this.#pieces.length === 1 && first ? first : Buffer.concat(this.#pieces, this.bytes)
  }

  /** Where to go on; undefined: more is needed for the next step. */
  #step(bytes: Buffer, at: number): number | undefined {
    switch (this.#part) {
      case 'head':
        return this.#head(bytes, at)
      case 'length':
      case 'chunk':
        return this.#take(bytes, at)
      case 'size':
        return this.#size(bytes, at)
      case 'chunk end':
        return this.#line(bytes, at, (line) => {
          if (line !== '') throw new BrokenAnswer('a chunk is longer than it says')
          this.#part = 'size'
        })
      case 'trailer':
        return this.#line(bytes, at, (line) => {
          if (line === '') this.#part = 'done'
        })
      case 'until close':
        this.#add(bytes.subarray(at))
        return bytes.length
      case 'done':
        return at
      default:
        return this.#part satisfies never
    }
  }

  #head(bytes: Buffer, at: number): number | undefined {
    const end = bytes.indexOf('\r\n\r\n', at, 'latin1')
    if ((end < 0 ? bytes.length : end) - at > HEAD_BYTES_MAX) throw new BrokenAnswer(`its head is larger than ${HEAD_BYTES_MAX} bytes`)
    if (end < 0) return undefined
    const head = bytes.toString('latin1', at, end)
    const { status, isKept } = statusOf(head)
    // Only a word on the way, such as "continue": the answer follows.
    if (status >= 100 && status < 200 && status !== 101) return end + 4
    this.status = status
    this.headers = headersOf(head)
    this.isKept = isKept && !/\bclose\b/i.test(String(this.headers['connection'] ?? ''))
    this.#bodyBegins()
    return end + 4
  }

  #bodyBegins(): void {
    const coding = this.headers['transfer-encoding']
    const length = this.headers['content-length']
    if (this.status === 101) throw new BrokenAnswer('it speaks of another protocol that nobody asked for')
    if (this.status === 204 || this.status === 304) this.#part = 'done'
    else if (coding !== undefined) {
      if (String(coding).toLowerCase() !== 'chunked') throw new BrokenAnswer(`its transfer coding ${String(coding)} is not known`)
      // Two lengths: somebody on the way may have believed the other one.
      if (length !== undefined) this.isKept = false
      this.#part = 'size'
    } else if (length !== undefined) {
      if (typeof length !== 'string' || !/^\d{1,15}$/.test(length)) throw new BrokenAnswer(`its length ${String(length)} is no length`)
      this.#left = Number(length)
      this.#part = this.#left === 0 ? 'done' : 'length'
    } else {
      this.isKept = false
      this.#part = 'until close'
    }
  }

  #take(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    this.#add(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end))
    if (this.#left === 0) this.#part = this.#part === 'chunk' ? 'chunk end' : 'done'
    return end
  }

  #size(bytes: Buffer, at: number): number | undefined {
    return this.#line(bytes, at, (line) => {
      const size = /^[\da-f]{1,8}(?=$|[; \t])/i.exec(line)?.[0]
      if (size === undefined) throw new BrokenAnswer('the size of a chunk is no number')
      this.#left = Number.parseInt(size, 16)
      this.#part = this.#left === 0 ? 'trailer' : 'chunk'
    })
  }

  #line(bytes: Buffer, at: number, take: (line: string) => void): number | undefined {
    const end = bytes.indexOf('\r\n', at, 'latin1')
    if ((end < 0 ? bytes.length : end) - at > LINE_BYTES_MAX) throw new BrokenAnswer('a line between its parts has no end')
    if (end < 0) return undefined
    take(bytes.toString('latin1', at, end))
    return end + 2
  }

  #add(piece: Buffer): void {
    this.#pieces.push(piece)
    this.bytes += piece.length
  }
}

function statusOf(head: string): { status: number; isKept: boolean } {
  const found = /^HTTP\/1\.([01]) (\d{3})(?:[ \r]|$)/.exec(head)
  if (!found) throw new BrokenAnswer('it does not begin like an answer of HTTP/1.1')
  return { status: Number(found[2]), isKept: found[1] === '1' }
}

function headersOf(head: string): Record<string, string | string[]> {
  const headers = Object.create(null) as Record<string, string | string[]>
  for (let at = head.indexOf('\r\n'); at >= 0; ) {
    const next = head.indexOf('\r\n', at + 2)
    const colon = head.indexOf(':', at + 2)
    const end = next < 0 ? head.length : next
    if (colon <= at + 2 || colon > end || head[at + 2] === ' ' || head[at + 2] === '\t')
      throw new BrokenAnswer('a line of its head is no header')
    const name = head.slice(at + 2, colon).toLowerCase()
    const value = head.slice(colon + 1, end).trim()
    const before = headers[name]
    headers[name] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value]
    at = next
  }
  return headers
}
