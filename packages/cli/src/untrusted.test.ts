// What a project or a broker shows the command line decides neither where it connects, nor what it runs, nor what a terminal does.
// long: starts the program per case
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { parseProject } from './commands/stacks/project-file.ts'
import { escapeControls } from './output.ts'
import { openCommandLine } from './test-parts/run-cli.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
}, 240_000)

/** An address that must never be called. */
async function startThief(): Promise<{ url: string; calls: string[] }> {
  const calls: string[] = []
  const server = createServer((request, response) => {
    calls.push(`${request.url} ${request.headers.authorization ?? ''}`)
    response.end('[]')
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls }
}

test('[X38] a project file that names a broker, a PAK, a context or a kubeconfig is refused with the reason', async () => {
  const thief = await startThief()
  const cli = await openCommandLine(broker)
  await cli.write('app.yaml', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n')
  const lines = [
    `broker: ${thief.url}`,
    `broker_url: ${thief.url}`,
    'pak_file: /etc/passwd',
    'context: other',
    'kubeconfig: ./k',
    'token: x',
  ]
  const refusalOf = (text: string): unknown => {
    try {
      return parseProject(text)
    } catch (error) {
      return error
    }
  }
  for (const line of lines) {
    const [key] = line.split(':')
    const where = 'brokkr.yaml line 2'
    expect(refusalOf(`stack: shop\n${line}\n`)).toMatchObject({ message: `the project file sets ${key}`, where, exitCode: 2 })
  }
  await cli.write('brokkr.yaml', `stack: shop\n${lines[0]}\n`)
  const refusal = await cli.fails(2, 'apply', '-f', join(cli.folder, 'app.yaml'))
  expect(refusal).toContain('may name neither a broker nor a key')
  expect(thief.calls).toEqual([])
}, 120_000)

test('[X38] files of the working directory select no broker and no context', async () => {
  const thief = await startThief()
  const cli = await openCommandLine(broker)
  const home = await mkdtemp(join(tmpdir(), 'brokkr-home-'))
  const stolen = JSON.stringify({ current: 'thief', contexts: { thief: { broker: thief.url, pak_file: join(cli.folder, 'admin.pak') } } })
  for (const name of ['.brokkr', 'brokkr', '.config/brokkr']) {
    await mkdir(join(cli.folder, name), { recursive: true })
    for (const file of ['config', 'context.json', 'config.yaml']) await writeFile(join(cli.folder, name, file), stolen)
  }
  for (const file of ['.env', '.brokkrrc', 'context.json']) await cli.write(file, `BROKKR_BROKER_URL=${thief.url}\n`)
  const env = { HOME: home, XDG_CONFIG_HOME: join(home, '.config') }
  const listed = await cli.run(['get', 'stacks', '-o', 'json'], { env })
  expect(listed).toMatchObject({ code: 0, stdout: '[\n]\n' })
  // Without the variables of the user no broker is known at all.
  const none = await cli.run(['get', 'stacks'], { env: { ...env, BROKKR_BROKER_URL: '', BROKKR_PAK_FILE: '' } })
  expect(none).toMatchObject({ code: 2, stdout: '' })
  expect(none.stderr).toContain('no broker is configured')
  expect((await cli.run(['context'], { env })).stdout).not.toContain('thief')
  expect(thief.calls).toEqual([])
}, 120_000)

test('[X38] a kubeconfig of the project starts no program; the one of the user does', async () => {
  const cli = await openCommandLine(broker)
  const home = await mkdtemp(join(tmpdir(), 'brokkr-home-'))
  const plugin = async (folder: string, sentinel: string) => {
    await mkdir(join(folder, '.kube'), { recursive: true })
    const script = join(folder, '.kube', 'plugin.sh')
    await writeFile(script, `#!/bin/sh\n: > '${sentinel}'\nexit 1\n`)
    await chmod(script, 0o755)
    const user = { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: './plugin.sh', interactiveMode: 'Never' } }
    const config = {
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:9' } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }
    await writeFile(join(folder, '.kube', 'config'), JSON.stringify(config))
    return JSON.stringify(config)
  }
  const [foreign, own] = [join(cli.folder, 'foreign-ran'), join(home, 'own-ran')]
  const config = await plugin(cli.folder, foreign)
  for (const name of ['kubeconfig', 'kubeconfig.yaml', 'config']) await cli.write(name, config)
  const env = { HOME: home, XDG_CONFIG_HOME: join(home, '.config') }
  const refused = await cli.run(['flows', 'list'], { env })
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain(join(home, '.kube', 'config'))
  expect(existsSync(foreign)).toBe(false)
  await plugin(home, own)
  expect((await cli.run(['flows', 'list'], { env })).code).not.toBe(0)
  expect([existsSync(foreign), existsSync(own)]).toEqual([false, true])
}, 120_000)

const hostile = 'x\u001b]52;c;ZXZpbA==\u0007y\u001b[2J\u009b31mz\u202ew'
const isClean = (text: string): boolean => !/(?![\n\t])\p{Cc}/u.test(text)

test('[X38] no control character of a broker reaches the terminal, in any form of output', async () => {
  const cli = await openCommandLine(broker)
  const tenant = await createGenerator(broker)
  const label = unique('env')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const name = unique('stack')
  const stack = await tenant.client.createStack({
    body: { name, generator_id: tenant.generator.id, labels: [label], description: hostile },
  })
  const yaml_content = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: x}\n`
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
  await agent.client.createEvent({
    params: { id: agent.agent.id },
    body: { agent_id: agent.agent.id, deployment_object_id: object.id, event_type: 'DEPLOY', status: 'FAILURE', message: hostile },
  })
  const commands = [
    ['get', 'stacks', '-o', 'wide'],
    ['describe', 'stack', name],
    ['describe', 'stack', name, '-o', 'yaml'],
    ['events', name],
    ['events', name, '-o', 'json'],
  ]
  for (const command of commands) {
    const { code, stdout, stderr } = await cli.run(command)
    expect({ command: command.join(' '), code, isClean: isClean(stdout + stderr) }).toMatchObject({ code: 0, isClean: true })
  }
  // The data is complete: an escape of JSON is the character itself.
  const { stdout } = await cli.run(['get', 'stacks', '-o', 'json'])
  expect(isClean(stdout)).toBe(true)
  expect((JSON.parse(stdout) as { description: string }[])[0]!.description).toBe(hostile)
}, 240_000)

test('[X38] control characters are printed as escapes that JSON reads back; lines stay', () => {
  expect(escapeControls('a\tb\nc')).toBe('a\tb\nc')
  expect(isClean(escapeControls(hostile))).toBe(true)
  expect(JSON.parse(escapeControls(JSON.stringify({ [hostile]: hostile })))).toEqual({ [hostile]: hostile })
  expect(escapeControls('\u{e0041}')).toBe('\\udb40\\udc41')
})
