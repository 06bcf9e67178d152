// Extracts one file from a .tar.gz with a verified checksum. Supports the part of the format that published archives use.
import { readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'

const inflatedBytesMax = 1024 * 1024 * 1024
const blockBytes = 512
const inflate = promisify(gunzip)

/** Writes the entry called `name` to `target` as an executable file. */
export async function extractEntry(archive: string, name: string, target: string): Promise<void> {
  const tar = await inflate(await readFile(archive), { maxOutputLength: inflatedBytesMax })
  const content = findEntry(tar, name)
  if (content === undefined) throw new Error(`${archive} contains no file ${name}`)
  await writeFile(target, content, { mode: 0o755 })
}

function findEntry(tar: Buffer, name: string): Buffer | undefined {
  for (let at = 0; at + blockBytes <= tar.length; ) {
    const header = tar.subarray(at, at + blockBytes)
    const size = Number.parseInt(text(header, 124, 12), 8) || 0
    const begin = at + blockBytes
    if (isFile(header) && entryName(header) === name && begin + size <= tar.length) return tar.subarray(begin, begin + size)
    at = begin + Math.ceil(size / blockBytes) * blockBytes
  }
  return undefined
}

function isFile(header: Buffer): boolean {
  return header[156] === 0x30 || header[156] === 0
}

function entryName(header: Buffer): string {
  // The GNU format has a space after the magic word and uses the prefix field for other data.
  const prefix = text(header, 257, 5) === 'ustar' && header[262] === 0 ? text(header, 345, 155) : ''
  return prefix === '' ? text(header, 0, 100) : `${prefix}/${text(header, 0, 100)}`
}

function text(header: Buffer, from: number, length: number): string {
  const field = header.subarray(from, from + length)
  const end = field.indexOf(0)
  return field.toString('utf8', 0, end < 0 ? length : end).trim()
}
