// Downloads one file and compares it with the checksum file published beside it before anybody can run it. A closed network is
// noticed within the connect limit; a cut or altered download leaves nothing behind.
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { basename } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { openUrl } from './open-url.ts'

export type DownloadProgress = { name: string; doneBytes: number; totalBytes: number | undefined; bytesPerSecond: number }
export type DownloadOptions = {
  url: string
  checksumUrl: string
  /** Where the file goes; the folder exists. */
  file: string
  signal?: AbortSignal
  onProgress?: (progress: DownloadProgress) => void
  connectTimeoutMs?: number
  stallTimeoutMs?: number
}

const checksumBytesMax = 256 * 1024
const fileBytesMax = 1024 * 1024 * 1024

export async function downloadVerified(options: DownloadOptions): Promise<void> {
  const expected = await readChecksum(options)
  try {
    const actual = await saveAndHash(options)
    if (actual !== expected) {
      throw new Error(
        `${options.url} is not the published file: its SHA-256 is ${actual}, ${options.checksumUrl} says ${expected}; it was thrown away`,
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
  const response = await openUrl(options.checksumUrl, options)
  if (response.statusCode !== 200) {
    response.destroy()
    throw new Error(`${options.checksumUrl} answered ${response.statusCode}, and nothing is run that has no published checksum`)
  }
  const text = await readText(response, options.checksumUrl).catch((cause: unknown) =>
    Promise.reject(brokeOff(options.checksumUrl, cause, options)),
  )
  const found = findChecksum(text, basename(new URL(options.url).pathname))
  if (found === undefined) throw new Error(`${options.checksumUrl} holds no SHA-256 of ${basename(options.url)}`)
  return found
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
  const response = await openUrl(options.url, options)
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
    throw brokeOff(options.url, cause, options)
  }
  return hash.digest('hex')
}

function brokeOff(url: string, cause: unknown, { signal }: DownloadOptions): Error {
  signal?.throwIfAborted()
  return new Error(`the download of ${url} broke off: ${(cause as Error).message}`, { cause })
}

function meterBytes(options: DownloadOptions, totalBytes: number | undefined, seen: (chunk: Buffer) => void): Transform {
  const begin = performance.now()
  let doneBytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      doneBytes += chunk.length
      if (doneBytes > fileBytesMax) return done(new Error(`it is larger than ${fileBytesMax} bytes`))
      seen(chunk)
      const seconds = Math.max(0.001, (performance.now() - begin) / 1000)
      options.onProgress?.({ name: basename(options.url), doneBytes, totalBytes, bytesPerSecond: Math.round(doneBytes / seconds) })
      done(null, chunk)
    },
  })
}

function isDigest(word: string | undefined): boolean {
  return word !== undefined && /^[0-9a-f]{64}$/i.test(word)
}
