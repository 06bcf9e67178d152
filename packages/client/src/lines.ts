// Splits a stream of bytes into lines, with a limit on the length of one line.
const lineBytesMax = 1024 * 1024

export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const pieces = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = pieces.pop() ?? ''
      if (rest.length > lineBytesMax) throw new Error(`a line of the stream is longer than ${lineBytesMax} characters`)
      for (const line of pieces) if (line.trim() !== '') yield line
    }
  } finally {
    // Ends the request if the caller stops before the stream does.
    await reader.cancel().catch(() => undefined)
  }
}
