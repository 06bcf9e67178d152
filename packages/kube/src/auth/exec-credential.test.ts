import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manualClock } from '@brokkr/testing/clock.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hasReason } from '../client/kube-error.ts'
import { createCredentials } from './credentials.ts'
import { runExecPlugin } from './exec-credential.ts'
import type { ExecPlugin } from './kube-config.ts'

const apiVersion = 'client.authentication.k8s.io/v1'
let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'exec-'))
})
afterAll(() => rm(dir, { recursive: true }))

const plugin = (program: string, more: Partial<ExecPlugin> = {}): ExecPlugin => ({
  kind: 'exec',
  apiVersion,
  command: process.execPath,
  args: ['-e', program],
  env: {},
  provideClusterInfo: false,
  ...more,
})
const credential = (status: object, version = apiVersion) =>
  `console.log(JSON.stringify({apiVersion:'${version}',kind:'ExecCredential',status:${JSON.stringify(status)}}))`
const run = (given: ExecPlugin, more: { timeoutMs?: number; signal?: AbortSignal } = {}) =>
  runExecPlugin(given, { env: {}, cluster: { server: 'https://api.example.com' }, timeoutMs: 20_000, ...more })

test('a plugin returns a token with its expiry', async () => {
  expect(await run(plugin(credential({ token: 't', expirationTimestamp: '2026-01-01T00:00:00Z' })))).toEqual({
    token: 't',
    expiresAtMs: Date.UTC(2026, 0, 1),
  })
  expect(await run(plugin(credential({ clientCertificateData: 'c', clientKeyData: 'k' })))).toEqual({
    certificate: { cert: 'c', key: 'k' },
    expiresAtMs: Number.POSITIVE_INFINITY,
  })
})

test('a plugin receives cluster information and its environment', async () => {
  const echo = `const info=JSON.parse(process.env.KUBERNETES_EXEC_INFO);console.log(JSON.stringify({apiVersion:info.apiVersion,kind:info.kind,status:{token:JSON.stringify([info.spec,process.env.A])}}))`
  const ask = async (provideClusterInfo: boolean) =>
    JSON.parse((await run(plugin(echo, { provideClusterInfo, env: { A: 'b' } }))).token ?? '') as unknown
  expect(await ask(false)).toEqual([{ interactive: false }, 'b'])
  expect(await ask(true)).toEqual([{ interactive: false, cluster: { server: 'https://api.example.com' } }, 'b'])
})

test.each([
  [
    'absent',
    plugin('', { command: 'no-such-program', installHint: 'Install it from the shelf' }),
    'is not installed. Install it from the shelf',
  ],
  ['failing', plugin('console.error("log in first");process.exit(3)'), 'ended with 3: log in first'],
  ['no JSON', plugin('console.log("secret-token")'), 'printed something that is not JSON'],
  ['another kind', plugin('console.log(JSON.stringify({kind:"Other"}))'), 'printed no ExecCredential'],
  [
    'another version',
    plugin(credential({ token: 't' }, 'client.authentication.k8s.io/v1beta1')),
    'answered in client.authentication.k8s.io/v1beta1',
  ],
  ['empty', plugin(credential({})), 'gave neither a token nor a certificate'],
  ['a certificate without key', plugin(credential({ clientCertificateData: 'c' })), 'gave neither a token nor a certificate'],
  ['a strange end', plugin(credential({ token: 't', expirationTimestamp: 'soon' })), 'which is no time'],
  ['too much', plugin('process.stdout.write("x".repeat(2e6))'), 'ended with'],
])('a plugin that is %s gives a typed error without its output', async (_what, given, message) => {
  const error = await run(given).catch((thrown: unknown) => thrown)
  expect(hasReason(error, 'BadCredential')).toBe(true)
  expect(String(error)).toContain(message)
  expect(String(error)).not.toContain('secret-token')
})

test('a plugin that hangs is stopped by the time limit or the signal', async () => {
  const hang = plugin('setInterval(()=>{},1000)')
  await expect(run(hang, { timeoutMs: 200 })).rejects.toThrow('did not end in time')
  const controller = new AbortController()
  const running = run(hang, { signal: controller.signal })
  controller.abort()
  await expect(running).rejects.toThrow('aborted')
})

test('concurrent requests share one plugin run, repeated before expiry or after a 401', async () => {
  const counter = join(dir, 'count')
  const program = `const fs=require('fs');fs.appendFileSync(${JSON.stringify(counter)},'x');const n=fs.readFileSync(${JSON.stringify(counter)},'utf8').length;console.log(JSON.stringify({apiVersion:'${apiVersion}',kind:'ExecCredential',status:{token:'t'+n,expirationTimestamp:new Date(Date.UTC(2026,0,1)+n*3600e3).toISOString()}}))`
  const clock = manualClock(Date.UTC(2026, 0, 1))
  const credentials = createCredentials(
    { clock, env: {} },
    { server: 'https://x.example.com', namespace: 'default', token: plugin(program) },
  )
  expect(await Promise.all([credentials.token(), credentials.token(), credentials.token()])).toEqual(['t1', 't1', 't1'])
  await clock.advance(3600_000 - 10_000)
  expect(await credentials.token()).toBe('t2')
  expect(await credentials.renew()).toBe(true)
  expect(await credentials.token()).toBe('t3')
  expect(await credentials.renew()).toBe(false)
  expect((await readFile(counter, 'utf8')).length).toBe(3)
})

test('a token file is read again after a while or a 401, and may be missing for a moment', async () => {
  const path = join(dir, 'token')
  const clock = manualClock()
  const credentials = createCredentials(
    { clock, env: {} },
    { server: 'https://x.example.com', namespace: 'default', token: { kind: 'file', path } },
  )
  await expect(credentials.token()).rejects.toMatchObject({ reason: 'BadCredential', message: expect.stringContaining('ENOENT') as string })
  await writeFile(path, 'one\n')
  expect(await credentials.token()).toBe('one')
  await writeFile(path, 'two')
  expect(await credentials.token()).toBe('one')
  await clock.advance(6_000)
  expect(await credentials.token()).toBe('two')
  await writeFile(path, 'three')
  expect(await credentials.renew()).toBe(true)
  expect(await credentials.token()).toBe('three')
  await rm(path)
  await clock.advance(6_000)
  expect(await credentials.token()).toBe('three')
})
