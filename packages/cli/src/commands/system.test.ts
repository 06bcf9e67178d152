// Commands on a running system: a real broker, a real API server and a real agent between them.
// long: starts the program per case
import { Agent } from '@brokkr/contract/agents/agent.ts'
import { Overview } from '@brokkr/contract/agents/fleet.ts'
import { DeploymentObject, DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import { Hold } from '@brokkr/contract/stacks/hold.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type CommandLine, openCommandLine } from '../test-parts/run-cli.ts'

let broker: TestBroker
let cli: CommandLine
let agent: TestAgent
let tenant: TestGenerator
let namespace: string
let plane: TestCluster
beforeAll(async () => {
  plane = await cluster({ controllers: false })
  namespace = await plane.namespace('cli')
  broker = await startTestBroker()
  cli = await openCommandLine(broker)
  tenant = await createGenerator(broker, 'ci')
  agent = await createAgent(broker, { name: 'edge-17', labels: ['env:prod'], generators: [tenant] })
  const process = await startTestAgent({ broker, agent, kubeconfigPath: plane.kubeconfigPath })
  return async () => {
    await process.kill()
    await broker.kill()
  }
}, 600_000)

const configMap = (name: string, value: string) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}, namespace: ${namespace}}\ndata: {v: "${value}"}\n`
const secret = (name: string, value: string) =>
  `apiVersion: v1\nkind: Secret\nmetadata: {name: ${name}, namespace: ${namespace}}\nstringData: {password: ${value}}\n`
const isInCluster = async (name: string) => (await plane.api('GET', `/api/v1/namespaces/${namespace}/configmaps/${name}`)).status !== 404
/** A stack that reaches the agent. */
async function apply(name: string, text: string, ...more: string[]): Promise<string> {
  const file = await cli.write(`${unique('m')}.yaml`, text)
  return cli.ok('apply', '-f', file, '--stack', name, '--generator', 'ci', '-l', 'env:prod', ...more)
}

test('apply waits until agents are healthy, says unchanged for equal content, and shows its effect in advance', async () => {
  const name = unique('shop')
  const [one, two] = [configMap(`${name}-a`, '1'), `${configMap(`${name}-a`, '2')}---\n${configMap(`${name}-b`, '1')}`]
  const file = await cli.write('a.yaml', one)
  expect(await cli.ok('apply', '-f', file, '--stack', name, '--generator', 'ci', '--dry-run')).toMatch(/^would create stack/)
  expect(await apply(name, one, '--wait')).toBe(`${name} 0 → 1   0 changed   1 new   0 gone\n${name} 1 applied by edge-17\n`)
  expect(await apply(name, one)).toBe(`${name} 1 unchanged\n`)
  const next = await cli.write('b.yaml', two)
  const effect = await cli.json(DryRun, 'apply', '-f', next, '--stack', name, '--dry-run')
  expect(effect.objects.map(({ change }) => change).toSorted()).toEqual(['added', 'changed'])
  expect(await cli.ok('diff', '-f', next, '--stack', name)).toContain('.data.v  "1" → "2"')
  expect(await cli.run(['diff', '-f', next, '--stack', name, '--exit-code'])).toMatchObject({ code: 10 })
  const object = await cli.json(DeploymentObject, 'apply', '-f', next, '--stack', name)
  expect(object.sequence_id).toBe(2)

  expect(await cli.ok('stacks', 'compare', name, '1', '2')).toContain(`+ ConfigMap ${namespace}/${name}-b`)
  expect(await cli.ok('stacks', 'show', name, '--sequence', '1')).toBe(one)
  const history = await cli.json(z.array(DeploymentObject), 'stacks', 'history', name)
  expect(history.map(({ sequence_id }) => sequence_id)).toEqual([2, 1])
  expect(await cli.ok('stacks', 'history', name)).toMatch(/1 +\d+ s ago +admin/)

  // The second content is healthy, so the one before it is the last good one.
  await cli.ok('stacks', 'label', name, 'env:prod', '--wait')
  expect(await cli.ok('rollback', name, '--dry-run')).toMatch(/^would submit the content of .* 1 again/)
  expect(await cli.ok('rollback', name, '--reason', '5xx', '--wait')).toContain(`${name} 3 = content of 1`)
  const { logs } = await broker.admin.listAuditLogs({ query: { action: 'deployment.rolled_back', limit: 10 } })
  expect(logs.some(({ details }) => details?.['reason'] === '5xx')).toBe(true)
  expect(await cli.fails(5, 'rollback', 'never', '--to', '1').catch(() => cli.fails(3, 'rollback', 'never', '--to', '1'))).toContain(
    'not found',
  )
}, 600_000)

test('a rollback holds: a submission waits behind it until release; undelete brings content and targets back', async () => {
  const name = unique('held')
  await apply(name, configMap(name, '1'), '--wait')
  await apply(name, configMap(name, '2'), '--wait')
  expect(await cli.ok('rollback', name, '--to', '1', '--reason', '5xx', '--wait')).toContain(`${name} 3 = content of 1, held`)
  const file = await cli.write('h.yaml', configMap(name, '4'))
  const behind = await cli.run(['apply', '-f', file, '--stack', name, '--wait'])
  expect(behind).toMatchObject({ code: 5, stderr: expect.stringContaining(`waits behind a hold at 3`) as unknown })
  expect(await cli.ok('describe', 'stack', name)).toMatch(/is held at 3 by admin .*"5xx"; waiting: 4/)
  expect(await cli.ok('release', name, '--dry-run')).toContain('agents get 4 instead of 3')
  expect(await cli.fails(5, 'release', name)).toContain('--yes')
  expect(await cli.ok('release', name, '--yes', '--wait')).toContain('agents get 4 instead of 3')
  const held = await cli.json(Hold, 'hold', name, '--reason', 'sale')
  expect(held).toMatchObject({ sequence_id: 4, reason: 'sale' })
  expect(await cli.ok('release', name)).toContain('nothing waits behind it')
  expect(await cli.fails(3, 'release', name)).toContain('hold_not_found')
  await cli.ok('stacks', 'delete', name, '--yes')
  expect(await cli.ok('stacks', 'undelete', name, '--wait')).toContain('is back')
  expect(await cli.ok('describe', 'stack', name)).toMatch(/edge-17 +applied/)
  expect(await cli.fails(3, 'stacks', 'undelete', name)).toContain('no deleted stack')
}, 600_000)

test('plan shows what agents would do, apply --plan submits exactly that, once', async () => {
  const name = unique('planned')
  const [one, two] = ['1', '2'].map((value) => `${configMap(name, value)}---\n${secret(name, `hunter${value}`)}`) as [string, string]
  await apply(name, one, '--wait')
  const file = await cli.write('p.yaml', two)
  const screen = await cli.ok('plan', '-f', file, '--stack', name)
  expect(screen).toMatch(new RegExp(`^plan \\S+  ${name} 1 → 2   1 agents \\(1 dry-run\\)   valid 60 min\n`))
  expect(screen).toMatch(new RegExp(`  ~ 1  ConfigMap ${namespace}/${name} +/data/v +1 → 2\n`))
  expect(screen).toMatch(new RegExp(`  ~ 1  Secret ${namespace}/${name} +/data/password +\\*\\*\\*#k1 → \\*\\*\\*#k2\n`))
  expect(screen).not.toContain('hunter')
  const id = /^apply {4}brokkr apply --plan (\S+) -f /m.exec(screen)?.[1] ?? ''
  const { results } = await cli.json(PlanWithResults, 'plan', '-f', file, '--stack', name)
  expect(results).toMatchObject([{ agent_name: 'edge-17', state: 'answered', summary: { update: 2 } }])
  expect(await cli.run(['plan', '-f', file, '--stack', name, '--exit-code', '-o', 'markdown'])).toMatchObject({
    code: 10,
    stdout: expect.stringContaining(`| \`~\` | 1 | \`ConfigMap ${namespace}/${name}\` |`) as unknown,
  })
  expect(await cli.fails(2, 'apply', '--plan', id)).toContain('-f FILE')
  const other = await cli.write('o.yaml', configMap(name, '3'))
  expect(await cli.fails(5, 'apply', '--plan', id, '-f', other)).toContain('not those that were planned')
  expect(await cli.ok('apply', '--plan', id, '-f', file, '--dry-run')).toMatch(/^would submit \d+ bytes to /)
  expect(await cli.ok('apply', '--plan', id, '-f', file, '--wait')).toBe(`${name} 1 → 2   as planned\n${name} 2 applied by edge-17\n`)
  const again = await cli.fails(5, 'apply', '--plan', id, '-f', file)
  for (const part of ['plan_outdated', '(head)', 'make a new plan']) expect(again).toContain(part)
  // Content of an earlier object needs no file.
  const back = (await cli.ok('plan', '--to', '1', '--stack', name, '-o', 'name')).trim()
  expect(await cli.ok('apply', '--plan', back)).toBe(`${name} 2 → 3   as planned\n`)
  // An agent that joins makes the plan outdated. It is not connected, so the next plan names it as silent.
  const moved = (await cli.ok('plan', '-f', file, '--stack', name, '-o', 'name')).trim()
  const absent = unique('absent')
  await createAgent(broker, { name: absent, generators: [tenant] })
  await cli.ok('stacks', 'target', name, '--agent', absent)
  expect(await cli.fails(5, 'apply', '--plan', moved, '-f', file)).toContain('(targets)')
  expect(await cli.ok('plan', '-f', file, '--stack', name)).toContain(`2 agents (1 dry-run, 1 silent: ${absent})`)
  expect(await cli.fails(3, 'plan', '-f', file, '--stack', `${name}x`)).toContain(`did you mean ${name}?`)
  expect(await cli.fails(3, 'plan', '--to', '9', '--stack', name)).toContain('stacks history')
  expect(await cli.fails(2, 'plan', '--stack', name)).toContain('--to SEQUENCE')
}, 600_000)

test('a folder is applied with its folders in name order, and standard input too', async () => {
  const name = unique('folder')
  const { stdout } = await cli.run(['apply', '-f', '-', '--stack', name, '--generator', 'ci', '-o', 'name'], {
    stdin: configMap(name, '1'),
  })
  expect(stdout).toBe(`${name}\n`)
}, 600_000)

test('get, describe, tree, events and status agree with the contract and show names', async () => {
  const name = unique('view')
  await apply(name, configMap(name, '1'), '--wait')
  const stacks = await cli.json(endpoints.listStacks.response, 'get', 'stacks', '-l', 'env:prod')
  expect(stacks.find((stack) => stack.name === name)?.status).toMatchObject({ agents_total: 1, agents_current: 1 })
  expect(await cli.ok('get', 'stacks', '--field', `name=${name}`)).toMatch(new RegExp(`^NAME +DESIRED.*\n${name} +1 +1/1 +healthy`))
  expect(await cli.ok('get', 'stacks', '--field', `name=${name}`, '-o', 'name')).toBe(`${name}\n`)
  expect(await cli.ok('get', 'stacks', '--field', `name=${name}`, '-o', 'yaml')).toContain(`name: ${name}`)
  await cli.json(z.array(Agent), 'agents', 'list')
  expect(await cli.ok('describe', 'stack', name)).toMatch(/edge-17 +applied +1 +healthy/)
  await cli.json(z.object({ agent: Agent }), 'describe', 'agent', 'edge-17')
  expect(await cli.ok('describe', 'agent', 'edge-17')).toMatch(/connected, seen \d+ s ago/)
  await waitFor('the tree of the agent', async () => (await cli.ok('tree', `${name}@edge-17`)).includes('ConfigMap'), { limitMs: 30_000 })
  await cli.json(endpoints.getStackTree.response, 'tree', name)
  expect(await cli.ok('tree', name)).toMatch(new RegExp(`${name}@edge-17 1 ✔ healthy[^]*└─ ConfigMap ${namespace}/${name} ✔`))
  expect(await cli.ok('events', name)).toMatch(/edge-17 +(ConfigMap|sequence 1)/)
  await cli.json(z.array(z.object({ agent_id: z.string() })), 'events', name)
  const status = await cli.run(['status', '-o', 'json'])
  expect(Overview.safeParse(JSON.parse(status.stdout)).success).toBe(true)
  expect(await cli.fails(3, 'describe', 'stack', `${name}x`)).toContain(`did you mean ${name}?`)
  expect(await cli.fails(3, 'describe', 'agent', 'egde-17')).toContain('did you mean edge-17?')
  expect(await cli.fails(3, 'logs', name)).toContain(`brokkr logs ${name}@AGENT`)
}, 600_000)

test('explain target and explain stuck name rule, origin, cause and next step', async () => {
  const name = unique('why')
  await apply(name, configMap(name, '1'), '--wait')
  expect(await cli.ok('explain', 'target', name, 'edge-17')).toMatch(
    /reaches edge-17: label env:prod on both .* registered with generator ci\nat sequence 1, as desired/,
  )
  expect(await cli.ok('explain', 'stuck', `${name}@edge-17`)).toContain('is not stuck')
  const file = await cli.write('bad.yaml', 'apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: x, namespace: default}\n')
  const waited = await cli.run(['apply', '-f', file, '--stack', name, '--wait', '--timeout', '60s'])
  expect(waited.code, waited.stderr).toBeOneOf([6, 7])
  expect(waited.stderr).toMatch(/next {2}brokkr/)
  const stuck = await cli.ok('explain', 'stuck', `${name}@edge-17`)
  for (const part of [`${name}@edge-17 2`, 'blocked by', 'since', 'do  ']) expect(stuck).toContain(part)
  const lonely = unique('lonely')
  await cli.ok('stacks', 'create', lonely)
  expect(await cli.ok('explain', 'target', lonely, 'edge-17')).toMatch(/does not reach edge-17[^]*why[^]*do /)
  expect(await cli.fails(2, 'explain', 'stuck', name)).toContain('shop@edge-17')
}, 600_000)

test('stacks target, label and delete take effect in the cluster, after a confirmation', async () => {
  const name = unique('made')
  await cli.ok('stacks', 'create', name, '--generator', 'ci', '--drift', 'report')
  const text = `${configMap(name, '1')}---\n${secret(name, 'hunter2')}`
  await cli.ok('apply', '-f', await cli.write('c.yaml', text), '--stack', name)
  expect(await cli.ok('stacks', 'target', name, '--agent', 'edge-17', '--wait')).toBe(`stack ${name} reaches edge-17\n`)
  const changed = await cli.ok('diff', '-f', await cli.write('d.yaml', text.replace('hunter2', 'other')), '--stack', name)
  expect(changed).toContain('.stringData.password  *** → ***')
  expect(changed).not.toContain('hunter2')
  expect(await cli.ok('stacks', 'label', name, 'env:other')).toBe(`stack ${name}: env:other\n`)
  expect(await cli.ok('stacks', 'label', name, 'env:other', '--remove')).toBe(`stack ${name}: no label\n`)
  expect(await cli.run(['stacks', 'delete', name])).toMatchObject({ code: 5, stdout: '' })
  expect(await cli.ok('stacks', 'delete', name, '--dry-run')).toMatch(/^would delete stack/)
  const { id } = (await broker.admin.listStacks({ query: { name } }))[0]!
  expect(await cli.ok('stacks', 'delete', name, '--yes', '--wait')).toContain('1 agents remove what it deployed')
  expect((await broker.admin.getStackStatus({ params: { id }, query: { include_deleted: true } })).agents).toEqual([])
  expect(await isInCluster(name)).toBe(false)
}, 600_000)

test('--watch prints changes from the feed and ends on Ctrl-C with 130', async () => {
  const name = unique('watched')
  await apply(name, configMap(name, '1'), '--wait')
  const watching = [
    cli.start(['get', 'stacks', '--field', `name=${name}`, '--watch', '-o', 'json']),
    cli.start(['describe', 'stack', name, '--watch', '-o', 'json']),
    cli.start(['events', name, '--watch', '-o', 'json']),
  ]
  for (const one of watching) await waitFor('the first line', () => one.stdout().includes('\n'), { limitMs: 30_000 })
  const lines = watching.map((one) => one.stdout().split('\n').length)
  await apply(name, configMap(name, '2'))
  for (const [at, one] of watching.entries())
    await waitFor('a line about the change', () => one.stdout().split('\n').length > lines[at]!, { limitMs: 30_000 })
  for (const one of watching) one.child.kill('SIGINT')
  for (const one of watching) {
    const { code, stdout } = await one.ended
    expect(code).toBe(130)
    for (const line of stdout.trimEnd().split('\n')) expect(() => JSON.parse(line) as unknown).not.toThrow()
  }
}, 600_000)

test('an interrupted --wait says that the work goes on', async () => {
  const name = unique('waits')
  await cli.ok('stacks', 'create', name)
  const file = await cli.write('w.yaml', configMap(name, '1'))
  const waiting = cli.start(['apply', '-f', file, '--stack', name, '--wait'])
  await waitFor('the submission', () => waiting.stdout().includes('0 → 1'), { limitMs: 30_000 })
  waiting.child.kill('SIGINT')
  expect(await waiting.ended).toMatchObject({ code: 130, stderr: expect.stringContaining('goes on') as unknown })
}, 600_000)

test('logs of pods that do not stream come by a diagnostic request', async () => {
  const name = unique('logs')
  await apply(name, configMap(name, '1'), '--wait')
  expect(await cli.fails(3, 'logs', `${name}@edge-17`)).toContain('no pod has such lines')
}, 600_000)
