// needs: postgres
// long: starts and kills the whole product
import { existsSync, readFileSync, statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { isSameProcess } from '@brokkr/local/supervisor/process-table.ts'
import { type RecordedProgram, readSupervisorState } from '@brokkr/local/supervisor/supervisor-state.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'

const run = (args: string[], given: { folder?: string; env?: Record<string, string> } = {}): Promise<ProgramProcess> =>
  startProgram({
    name: args[0]!,
    main: 'packages/cli/src/main.ts',
    args,
    env: given.env ?? {},
    ...(given.folder === undefined ? {} : { folder: given.folder }),
  })
const upArgs = ['up', '--foreground', '--plain', '--port', '0']
const line = (program: ProgramProcess, pattern: RegExp) =>
  waitFor(`output ${pattern}`, () => pattern.exec(program.text()), { limitMs: 300_000, onTimeout: () => program.text() })
const brokerOf = async (program: ProgramProcess) => (await line(program, /✔ broker +(http:\/\/\S+)/))[1]!
const recorded = (program: ProgramProcess): RecordedProgram[] => readSupervisorState(join(program.folder, '.brokkr'))
const living = (programs: readonly RecordedProgram[]) =>
  programs.filter(({ pid, startTime }) => isSameProcess(pid, startTime)).map(({ name }) => name)

test('up --lite serves probes, metrics and docs until Ctrl-C, and rejects a second up', async () => {
  const up = await run([...upArgs, '--lite'])
  const url = await brokerOf(up)
  for (const [path, text] of [
    ['/healthz', 'OK'],
    ['/readyz', 'Ready'],
    ['/metrics', 'brokkr_http_requests_total'],
    ['/docs', 'Brokkr'],
    ['/docs/openapi.json', 'create_stack'],
    ['/', 'Brokkr'],
  ] as const) {
    const answer = await fetch(url + path)
    expect([path, answer.status]).toEqual([path, 200])
    expect(await answer.text()).toContain(text)
  }
  await line(up, /− practice +left out/)
  const started = recorded(up)
  expect(living(started).toSorted()).toEqual(['broker', 'postgres'])

  const second = await run(['up', '--foreground', '--lite'], { folder: up.folder })
  expect((await second.exited).code).toBe(0)
  expect(second.text()).toContain(`running already at ${url}`)

  // A terminal sends it to npm, its shell and its script as well, and each of them passes it on.
  for (let times = 0; times < 20; times += 1) {
    process.kill(up.pid, 'SIGINT')
    await new Promise(setImmediate)
  }
  expect((await up.exited).code).toBe(0)
  expect(up.text()).toContain('stopped; data are kept')
  expect(living(started)).toEqual([])
  await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
})

test('up starts again with its data after kill -9', async () => {
  const up = await run([...upArgs, '--lite'])
  const url = await brokerOf(up)
  const pak = readFileSync(join(up.folder, '.brokkr', 'keys', 'admin.pak'), 'utf8').trim()
  const post = (address: string, name: string) =>
    fetch(`${address}/api/v1/generators`, {
      method: 'POST',
      headers: { authorization: `Bearer ${pak}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name }),
    })
  expect((await post(url, 'kept')).status).toBe(201)
  const started = recorded(up)
  await up.kill('SIGKILL')
  for (const { pid, startTime } of started) if (isSameProcess(pid, startTime)) process.kill(pid, 'SIGKILL')
  await waitFor('everything it started to end', () => living(started).length === 0)

  const again = await run([...upArgs, '--lite'], { folder: up.folder })
  const next = await brokerOf(again)
  expect((await post(next, 'kept')).status).toBe(409)
  await again.kill('SIGTERM')
})

test('up skips the cluster with instructions if Kubernetes is unavailable', async () => {
  const probe = await run(['--help'])
  await probe.exited
  const empty = join(probe.folder, 'no-kubernetes')
  await mkdir(empty)
  const up = await run(upArgs, { folder: probe.folder, env: { BROKKR_KUBE_ASSETS: empty } })
  const url = await brokerOf(up)
  await line(up, /− practice +skipped/)
  await line(up, /BROKKR_KUBE_ASSETS=/)
  await line(up, /--kubeconfig/)
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  await up.kill('SIGTERM')
  expect((await up.exited).code).toBe(0)
})

test('secret files are readable by their owner only and appear in no output or log', async () => {
  const up = await run([...upArgs, '--lite'])
  await brokerOf(up)
  const keys = join(up.folder, '.brokkr', 'keys')
  expect(statSync(keys).mode & 0o777).toBe(0o700)
  const secrets = ['admin.pak', 'encryption.key', 'pipelines.key'].map((name) => {
    expect(statSync(join(keys, name)).mode & 0o777).toBe(0o600)
    return readFileSync(join(keys, name), 'utf8').trim()
  })
  const logs = [up.text(), ...recorded(up).map(({ log }) => (existsSync(log) ? readFileSync(log, 'utf8') : ''))]
  for (const secret of secrets) expect(logs.some((text) => text.includes(secret))).toBe(false)
  await up.kill('SIGTERM')
})

test('up returns when the broker is ready, and down --purge deletes all files', async () => {
  const up = await run(['up', '--lite', '--port', '0'])
  expect((await up.exited).code).toBe(0)
  const url = await brokerOf(up)
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  const started = recorded(up)
  expect(living(started).toSorted()).toEqual(['broker', 'postgres'])
  const down = await run(['down', '--purge'], { folder: up.folder })
  expect((await down.exited).code).toBe(0)
  expect(down.text()).toContain('data are removed')
  await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
  expect(existsSync(join(up.folder, '.brokkr'))).toBe(false)
  expect(living(started)).toEqual([])
  const status = await run(['status'], { folder: up.folder })
  expect([(await status.exited).code, status.text()]).toEqual([2, expect.stringContaining('no broker is configured') as unknown])
})

test('up names the owner of a port that is taken', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const up = await run(['up', '--foreground', '--plain', '--lite', '--port', String(port)])
  expect((await up.exited).code).toBe(1)
  expect(up.text()).toContain(`port ${port} is in use`)
  expect(up.text()).toContain(`by process ${process.pid}: `)
  expect(up.text()).toContain(`brokkr up --port ${port + 1}`)
})

test('up --database-url uses that database, and down --purge leaves it alone', async () => {
  const database = await emptyDatabase()
  const up = await run([...upArgs, '--lite', '--database-url', database.url])
  await brokerOf(up)
  expect(recorded(up).map(({ name }) => name)).toEqual(['broker'])
  const down = await run(['down', '--purge'], { folder: up.folder })
  expect((await down.exited).code).toBe(0)
  expect((await up.exited).code).toBe(0)
  expect(existsSync(join(up.folder, '.brokkr'))).toBe(false)
  expect(await runSql(database.url, `select count(*)::int as stacks from information_schema.tables where table_name = 'stacks'`)).toEqual([
    { stacks: 1 },
  ])
})

test.each([
  [['up', '--port', 'x'], 'is not a port'],
  [['get', 'nothing'], 'unknown resource type: nothing'],
  [['status'], 'no broker is configured'],
  [['--broker', 'http://127.0.0.1:1', 'get', 'agents'], 'no broker is configured'],
])('the usage error of %j has a next step', async (args, text) => {
  const program = await run(args)
  expect((await program.exited).code).not.toBe(0)
  expect(program.text()).toContain(text)
  expect(program.text()).toMatch(/next {2}/)
})
