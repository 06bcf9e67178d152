import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Fault, type FileServer, startFileServer } from '../test-parts/file-server.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { downloadVerified, findChecksum } from './download.ts'

const program = randomBytes(3_000_000)
const digest = createHash('sha256').update(program).digest('hex')

test('a download with the published checksum is stored, and progress is reported', async () => {
  const { server, download, dir } = await setup()
  const seen: number[] = []
  await download({ onProgress: ({ doneBytes, totalBytes }) => seen.push(doneBytes, totalBytes ?? -1) })
  expect(program.equals(await readFile(join(dir, 'program')))).toBe(true)
  expect(seen.slice(-2)).toEqual([program.length, program.length])
  expect(server.requests).toEqual(['/program.sha256', '/program'])
})

test.each<[string, string, Fault, string]>([
  ['one wrong byte', '/program', 'wrong-byte', 'is not the published file: its SHA-256 is'],
  ['a download that breaks off', '/program', 'cut-off', 'was interrupted'],
  ['a file that is not there', '/program', 'missing', 'answered 404'],
  ['no checksum beside it', '/program.sha256', 'missing', 'programs without a published checksum are not used'],
  ['a checksum that breaks off', '/program.sha256', 'cut-off', 'was interrupted'],
  ['a server that falls silent', '/program', 'silent', 'no data for 0.3 s'],
])('the download of %s fails with its reason and leaves no file', async (_what, path, fault, reason) => {
  const { server, download, dir } = await setup()
  server.faults.set(path, fault)
  await expect(download({ stallTimeoutMs: 300 })).rejects.toThrow(reason)
  expect(await readdir(dir)).toEqual([])
})

test('a program without a checksum is not requested', async () => {
  const { server, download } = await setup()
  server.files.set('/program.sha256', Buffer.from('<html>not a checksum</html>'))
  await expect(download()).rejects.toThrow('contains no SHA-256 of program')
  expect(server.requests).toEqual(['/program.sha256'])
})

test('a redirect is followed on loopback and rejected to plain HTTP elsewhere', async () => {
  const { server, download, dir } = await setup()
  server.files.set('/elsewhere', program)
  server.redirects.set('/program', '/elsewhere')
  await download()
  expect(existsSync(join(dir, 'program'))).toBe(true)
  server.redirects.set('/program', 'http://files.example/program')
  await expect(download()).rejects.toThrow('neither HTTPS nor this machine')
})

test('a redirect loop fails', async () => {
  const { server, download } = await setup()
  server.redirects.set('/program', '/program')
  await expect(download()).rejects.toThrow('redirected more than 5 times')
})

test('a TLS host that sends nothing fails after the connect timeout', async () => {
  const sockets: Socket[] = []
  const silent = createServer((socket) => sockets.push(socket.on('error', () => {})))
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const url = `https://127.0.0.1:${(silent.address() as AddressInfo).port}/program`
  const begin = performance.now()
  const file = join(tempDir(), 'program')
  await expect(downloadVerified({ url, checksumUrl: `${url}.sha256`, file, connectTimeoutMs: 250 })).rejects.toThrow(
    'no connection within 0.25 s',
  )
  expect(performance.now() - begin).toBeLessThan(2500)
})

test('a closed port fails with the address', async () => {
  const server = await startFileServer()
  await server.close()
  const url = `${server.url}/program`
  const file = join(tempDir(), 'program')
  await expect(downloadVerified({ url, checksumUrl: `${url}.sha256`, file })).rejects.toThrow(
    `${url}.sha256 could not be reached: connect ECONNREFUSED`,
  )
})

test('an aborted download deletes its partial file', async () => {
  const { download, dir } = await setup()
  const stop = new AbortController()
  const error = await download({ signal: stop.signal, onProgress: () => stop.abort() }).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ name: 'AbortError' })
  expect(await readdir(dir)).toEqual([])
})

const other = 'a'.repeat(64)
test.each([
  ['a bare digest', digest, digest],
  ['a bare digest in capitals', `${digest.toUpperCase()}\n`, digest],
  ['lines of several files', `${other}  another\n${digest}  program\n`, digest],
  ['a binary mark before the name', `${digest} *program\n`, digest],
  ['another file alone', `${digest}  another\n`, undefined],
  ['a digest of another length', digest.slice(2), undefined],
  ['nothing', '', undefined],
])('findChecksum finds the digest in a file with %s', (_what, text, found) => {
  expect(findChecksum(text, 'program')).toBe(found)
})

type Extra = Partial<Parameters<typeof downloadVerified>[0]>

async function setup(): Promise<{ server: FileServer; dir: string; download: (extra?: Extra) => Promise<void> }> {
  const server = await startFileServer()
  onTestFinished(() => server.close())
  server.files.set('/program', program)
  server.files.set('/program.sha256', Buffer.from(`${digest}\n`))
  const dir = tempDir()
  const url = `${server.url}/program`
  return { server, dir, download: (extra) => downloadVerified({ url, checksumUrl: `${url}.sha256`, file: join(dir, 'program'), ...extra }) }
}
