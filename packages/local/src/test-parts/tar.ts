// Makes a small .tar.gz as published archives look.
import { gzipSync } from 'node:zlib'

/** `links`: names that are links instead, `1` for a hard link and `2` for a symbolic one. */
export function tarball(entries: Record<string, Buffer>, links: Record<string, { type: '1' | '2'; to: string }> = {}): Buffer {
  const blocks = Object.entries(entries).flatMap(([name, content]) => [header(name, content.length), padded(content)])
  for (const [name, { type, to }] of Object.entries(links)) {
    const block = header(name, 0)
    block.write(type, 156)
    block.write(to, 157)
    blocks.push(block)
  }
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}

function header(name: string, size: number): Buffer {
  const block = Buffer.alloc(512)
  block.write(name, 0)
  block.write('0000755', 100)
  block.write(size.toString(8).padStart(11, '0'), 124)
  block.write(name.endsWith('/') ? '5' : '0', 156)
  block.write('ustar\0', 257, 'latin1')
  return block
}

function padded(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}
