// A file server on loopback that can misbehave: what a download meets on a bad day.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Fault = 'none' | 'wrong-byte' | 'cut-off' | 'missing' | 'silent'
export type FileServer = {
  url: string
  files: Map<string, Buffer>
  /** What happens to requests for a path; `none` unless told. */
  faults: Map<string, Fault>
  requests: string[]
  redirects: Map<string, string>
  close: () => Promise<void>
}

export async function startFileServer(): Promise<FileServer> {
  const files = new Map<string, Buffer>()
  const faults = new Map<string, Fault>()
  const redirects = new Map<string, string>()
  const requests: string[] = []
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    requests.push(path)
    const location = redirects.get(path)
    if (location !== undefined) response.writeHead(302, { location }).end()
    else answer(response, files.get(path), faults.get(path) ?? 'none')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, files, faults, redirects, requests, close }
}

function answer(response: ServerResponse, content: Buffer | undefined, fault: Fault): void {
  if (fault === 'silent') return
  if (content === undefined || fault === 'missing') {
    response.writeHead(404).end()
    return
  }
  const sent = fault === 'wrong-byte' ? flipOneBit(content) : content
  response.writeHead(200, { 'content-length': sent.length })
  if (fault === 'cut-off') response.write(sent.subarray(0, Math.floor(sent.length / 2)), () => response.destroy())
  else response.end(sent)
}

function flipOneBit(content: Buffer): Buffer {
  const flipped = Buffer.from(content)
  const middle = Math.floor(flipped.length / 2)
  flipped[middle] = (flipped[middle] ?? 0) ^ 1
  return flipped
}
