// Splits a byte stream into lines, with a limit on the length of a line.

const LINE_END = 10

export class LineTooLong extends Error {
  override readonly name = 'LineTooLong'
}

export class LineSplitter {
  #parts: Buffer[] = []
  #bytes = 0
  readonly #bytesMax: number

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Returns the lines that `chunk` completes, without line ends and without empty lines. */
  push(chunk: Buffer): string[] {
    const first = chunk.indexOf(LINE_END)
    if (first === -1) {
      this.#keep(chunk)
      return []
    }
    this.#check(this.#bytes + first)
    const end = chunk.lastIndexOf(LINE_END)
    // All lines are decoded at once, which costs less than line by line.
    const lines = this.#complete(chunk.subarray(0, end)).split('\n')
    if (end > this.#bytesMax) for (const line of lines) this.#check(Buffer.byteLength(line))
    if (end + 1 < chunk.length) this.#keep(chunk.subarray(end + 1))
    return lines.includes('') ? lines.filter((line) => line !== '') : lines
  }

  /** Bytes after the last line end; not 0 at the end of a stream means that it was cut within a line. */
  get pendingBytes(): number {
    return this.#bytes
  }

  #complete(tail: Buffer): string {
    if (this.#bytes === 0) return tail.toString('utf8')
    this.#parts.push(tail)
    const text = Buffer.concat(this.#parts, this.#bytes + tail.length).toString('utf8')
    this.#parts = []
    this.#bytes = 0
    return text
  }

  #keep(part: Buffer): void {
    this.#check(this.#bytes + part.length)
    this.#parts.push(part)
    this.#bytes += part.length
  }

  #check(bytes: number): void {
    if (bytes > this.#bytesMax) throw new LineTooLong(`a line is longer than ${this.#bytesMax} bytes`)
  }
}
