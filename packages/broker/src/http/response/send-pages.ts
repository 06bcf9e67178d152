// Sends a list page by page. The next page is read when the connection accepts more, so a response of any length holds a few pages in
// memory. An error cuts the connection: the array is not closed, so the client cannot mistake it for a complete list.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createCompressor, encodingFor } from './compress.ts'
import { disconnectStalledClient, type StallDeps, slicesOf } from './stalled-response.ts'

export interface PagedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Read by the caller, so that its failure still becomes an error response. */
  readonly first: IteratorResult<string | Buffer>
  /** The other pages. All are JSON arrays, which are joined. */
  readonly pages: AsyncIterator<string | Buffer>
  readonly acceptEncoding: string | undefined
}

export async function sendPages(deps: StallDeps, response: ServerResponse, answer: PagedResponse): Promise<void> {
  const encoding = encodingFor(answer.acceptEncoding ?? '')
  // Headers set earlier may include `vary`.
  const varyHeader = response.getHeader('vary')
  response.writeHead(answer.status, {
    ...answer.headers,
    vary: varyHeader === undefined ? 'accept-encoding' : `${String(varyHeader)}, accept-encoding`,
    ...(encoding === null ? {} : { 'content-encoding': encoding }),
  })
  disconnectStalledClient(deps, response)
  const body = Readable.from(joined(answer), { objectMode: true, highWaterMark: 1 })
  await (encoding === null ? pipeline(body, response) : pipeline(body, createCompressor(encoding), response))
}

async function* joined({ first, pages }: PagedResponse): AsyncGenerator<Buffer> {
  try {
    let isFirst = true
    for (let page = first; page.done !== true; page = await pages.next()) {
      // Every page begins with a bracket: the first keeps it, the others get a comma instead.
      const bytes = typeof page.value === 'string' ? Buffer.from(page.value) : page.value
      if (!isFirst) yield comma
      yield* slicesOf(bytes.subarray(isFirst ? 0 : 1, -1))
      isFirst = false
    }
    yield Buffer.from(isFirst ? '[]' : ']')
  } finally {
    await pages.return?.()
  }
}

const comma = Buffer.from(',')
