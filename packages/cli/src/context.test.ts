import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { openClient, saveContext } from './context.ts'
import { exitCodes } from './output.ts'

let env: NodeJS.ProcessEnv
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'brokkr-context-'))
  env = { XDG_CONFIG_HOME: folder }
})

/** A server that writes down which key it was sent. */
async function listening() {
  const keys: (string | undefined)[] = []
  const server = createServer((request, response) => {
    keys.push(request.headers.authorization)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end('[]')
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { keys, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
async function saved(broker: string): Promise<void> {
  await writeFile(join(folder, 'saved.pak'), 'saved-key\n')
  await writeFile(join(folder, 'other.pak'), 'other-key\n')
  await saveContext({ broker, pak_file: join(folder, 'saved.pak') }, env)
}

test.each([
  ['--broker', (url: string) => ({ globals: { broker: url }, change: {} })],
  ['BROKKR_BROKER_URL', (url: string) => ({ globals: {}, change: { BROKKR_BROKER_URL: url } })],
])('the saved PAK is not sent to another broker named by %s', async (_what, choose) => {
  const [own, foreign] = [await listening(), await listening()]
  await saved(own.url)
  const { globals, change } = choose(foreign.url)
  await expect(openClient(globals, { ...env, ...change })).rejects.toMatchObject({
    exitCode: exitCodes.usage,
    message: expect.stringContaining('is not sent to') as unknown,
  })
  const other = { ...change, BROKKR_PAK_FILE: join(folder, 'other.pak') }
  await (await openClient(globals, { ...env, ...other })).listAgents({})
  expect([own.keys, foreign.keys]).toEqual([[], ['Bearer other-key']])
})

test('the saved PAK is sent to every path of its own origin', async () => {
  const own = await listening()
  await saved(own.url)
  await (await openClient({}, env)).listAgents({})
  await (await openClient({ broker: `${own.url}/` }, env)).listAgents({})
  expect(own.keys).toEqual(['Bearer saved-key', 'Bearer saved-key'])
})

test.each(['http://brokkr.example.com', 'http://10.0.0.7:3000', 'http://localhost.example.com', 'ftp://127.0.0.1', 'nothing'])(
  'a PAK is not sent to %s',
  async (broker) => {
    await saved('http://127.0.0.1:1')
    const refused = openClient({ broker, pakFile: join(folder, 'other.pak') }, env)
    await expect(refused).rejects.toMatchObject({ name: 'CliError', exitCode: exitCodes.usage })
  },
)

test('plain HTTP on loopback and HTTPS on any host are accepted', async () => {
  await saved('http://127.0.0.1:1')
  for (const broker of ['http://localhost:3000', 'http://[::1]:3000', 'https://brokkr.example.com'])
    await openClient({ broker, pakFile: join(folder, 'other.pak') }, env)
})
