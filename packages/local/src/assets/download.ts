// Downloads a file and verifies it against the published checksum before it can run. An unreachable network fails within the
// connect limit; an interrupted or altered download leaves no file.
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { basename } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { httpGet } from './http-get.ts'

export type DownloadProgress = { name: string; doneBytes: number; totalBytes: number | undefined; bytesPerSecond: number }
export type DownloadOptions = {
  url: string
  checksumUrl: string
  /** Path of the file; its folder must exist. */
  file: string
  signal?: AbortSignal
  onProgress?: (progress: DownloadProgress) => void
  connectTimeoutMs?: number
  stallTimeoutMs?: number
}

const checksumBytesMax = 256 * 1024
const fileBytesMax = 1024 * 1024 * 1024

export async function downloadVerified(options: DownloadOptions): Promise<void> {
  const expectedDigest = await readChecksum(options)
  try {
    const actualDigest = await saveAndHash(options)
    if (actualDigest !== expectedDigest) {
      throw new Error(
        `${options.url} is not the published file: its SHA-256 is ${actualDigest}, ${options.checksumUrl} says ${expectedDigest}; the download was deleted`,
      )
    }
  } catch (error) {
    await rm(options.file, { force: true })
    throw error
  }
}

/** The SHA-256 of `name` in a checksum file: either the bare digest, or lines of digest and file name. */
export function findChecksum(text: string, name: string): string | undefined {
  const lines = text.split('\n').map((line) => line.trim().split(/\s+/))
  const own = lines.find(([digest, file]) => isDigest(digest) && file?.replace(/^\*/, '') === name)
  const bare = lines.find((words) => words.length === 1 && isDigest(words[0]))
  return (own ?? bare)?.[0]?.toLowerCase()
}

async function readChecksum(options: DownloadOptions): Promise<string> {
  const response = await httpGet(options.checksumUrl, options)
  if (response.statusCode !== 200) {
    response.destroy()
    throw new Error(`${options.checksumUrl} answered ${response.statusCode}; programs without a published checksum are not used`)
  }
  const text = await readText(response, options.checksumUrl).catch((cause: unknown) =>
    Promise.reject(interruptedError(options.checksumUrl, cause, options)),
  )
  const checksum = findChecksum(text, basename(new URL(options.url).pathname))
  if (checksum === undefined) throw new Error(`${options.checksumUrl} contains no SHA-256 of ${basename(options.url)}`)
  return checksum
}

async function readText(response: IncomingMessage, url: string): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > checksumBytesMax) throw new Error(`${url} is larger than a checksum file can be`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

async function saveAndHash(options: DownloadOptions): Promise<string> {
  const response = await httpGet(options.url, options)
  if (response.statusCode !== 200) {
    response.destroy()
    throw new Error(`${options.url} answered ${response.statusCode}`)
  }
  const hash = createHash('sha256')
  const meter = meterBytes(options, Number(response.headers['content-length']) || undefined, (chunk) => hash.update(chunk))
  try {
    // Not executable yet: the mode changes after the comparison.
    await pipeline(response, meter, createWriteStream(options.file, { mode: 0o600 }), options.signal ? { signal: options.signal } : {})
  } catch (cause) {
    throw interruptedError(options.url, cause, options)
  }
  return hash.digest('hex')
}

function interruptedError(url: string, cause: unknown, { signal }: DownloadOptions): Error {
  signal?.throwIfAborted()
  return new Error(`the download of ${url} was interrupted: ${(cause as Error).message}`, { cause })
}

function meterBytes(options: DownloadOptions, totalBytes: number | undefined, onChunk: (chunk: Buffer) => void): Transform {
  const begin = performance.now()
  let doneBytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      doneBytes += chunk.length
      if (doneBytes > fileBytesMax) return done(new Error(`it is larger than ${fileBytesMax} bytes`))
      onChunk(chunk)
      const seconds = Math.max(0.001, (performance.now() - begin) / 1000)
      options.onProgress?.({ name: basename(options.url), doneBytes, totalBytes, bytesPerSecond: Math.round(doneBytes / seconds) })
      done(null, chunk)
    },
  })
}

function isDigest(word: string | undefined): boolean {
  return word !== undefined && /^[0-9a-f]{64}$/i.test(word)
}
