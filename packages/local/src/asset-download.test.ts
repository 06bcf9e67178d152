import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { downloadVerified, findChecksum } from './asset-download.ts'
import { type Fault, type FileServer, startFileServer } from './test-parts/file-server.ts'
import { tempDir } from './test-parts/temp-dir.ts'

const program = randomBytes(3_000_000)
const digest = createHash('sha256').update(program).digest('hex')

test('a file that equals its published checksum is kept, and the way there is told', async () => {
  const { server, download, dir } = await setup()
  const seen: number[] = []
  await download({ onProgress: ({ doneBytes, totalBytes }) => seen.push(doneBytes, totalBytes ?? -1) })
  expect(program.equals(await readFile(join(dir, 'program')))).toBe(true)
  expect(seen.slice(-2)).toEqual([program.length, program.length])
  expect(server.requests).toEqual(['/program.sha256', '/program'])
})

test.each<[string, string, Fault, string]>([
  ['one wrong byte', '/program', 'wrong-byte', 'is not the published file: its SHA-256 is'],
  ['a download that breaks off', '/program', 'cut-off', 'broke off'],
  ['a file that is not there', '/program', 'missing', 'answered 404'],
  ['no checksum beside it', '/program.sha256', 'missing', 'nothing is run that has no published checksum'],
  ['a checksum that breaks off', '/program.sha256', 'cut-off', 'broke off'],
  ['a server that falls silent', '/program', 'silent', 'silent for 0.3 s'],
])('%s is refused with the reason and leaves no file', async (_what, path, fault, reason) => {
  const { server, download, dir } = await setup()
  server.faults.set(path, fault)
  await expect(download({ stallTimeoutMs: 300 })).rejects.toThrow(reason)
  expect(await readdir(dir)).toEqual([])
})

test('without a checksum not one byte of the program is fetched', async () => {
  const { server, download } = await setup()
  server.files.set('/program.sha256', Buffer.from('<html>not a checksum</html>'))
  await expect(download()).rejects.toThrow('holds no SHA-256 of program')
  expect(server.requests).toEqual(['/program.sha256'])
})

test('a redirect on this machine is followed, one to plain HTTP elsewhere is not', async () => {
  const { server, download, dir } = await setup()
  server.files.set('/elsewhere', program)
  server.redirects.set('/program', '/elsewhere')
  await download()
  expect(existsSync(join(dir, 'program'))).toBe(true)
  server.redirects.set('/program', 'http://files.example/program')
  await expect(download()).rejects.toThrow('neither HTTPS nor this machine')
})

test('a redirect that leads to itself ends', async () => {
  const { server, download } = await setup()
  server.redirects.set('/program', '/program')
  await expect(download()).rejects.toThrow('redirected more than 5 times')
})

test('a host that takes the connection and says nothing is given up after the connect limit', async () => {
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

test('a closed port is reported at once with the address', async () => {
  const server = await startFileServer()
  await server.close()
  const url = `${server.url}/program`
  const file = join(tempDir(), 'program')
  await expect(downloadVerified({ url, checksumUrl: `${url}.sha256`, file })).rejects.toThrow(
    `${url}.sha256 could not be reached: connect ECONNREFUSED`,
  )
})

test('a wish to stop ends the download and removes what there was', async () => {
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
])('in a checksum file with %s the digest is found', (_what, text, found) => {
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
