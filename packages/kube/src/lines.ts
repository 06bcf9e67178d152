// Splits a byte stream into lines. Bounded: a line that never ends is an error, not a full memory.

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

  /** The lines that `chunk` completed, without their line ends. Empty lines are left out. */
  push(chunk: Buffer): string[] {
    const lines: string[] = []
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const line = this.#complete(chunk.subarray(start, end))
      if (line !== '') lines.push(line)
      start = end + 1
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
    return lines
  }

  /** Bytes after the last line end: not empty means that the stream was cut within a line. */
  get pendingBytes(): number {
    return this.#bytes
  }

  #complete(tail: Buffer): string {
    if (this.#bytes === 0) {
      this.#check(tail.length)
      return tail.toString('utf8')
    }
    this.#keep(tail)
    const line = Buffer.concat(this.#parts, this.#bytes).toString('utf8')
    this.#parts = []
    this.#bytes = 0
    return line
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
