// Removal of an agent on a real broker; the test reports what an agent would.
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { type CommandLine, openCommandLine } from '../../test-parts/run-cli.ts'

let broker: TestBroker
let cli: CommandLine
beforeAll(async () => {
  broker = await startTestBroker()
  cli = await openCommandLine(broker)
  return () => broker.kill()
})

test('agents remove --prune ends registrations and waits until the agent has removed the stacks', async () => {
  const tenant = await createGenerator(broker)
  const label = unique('l')
  const { agent, client } = await createAgent(broker, { generators: [tenant], labels: [label] })
  const body = () => ({ name: unique('s'), generator_id: tenant.generator.id, labels: [label] })
  // More than are read at once.
  const stacks = await Promise.all(Array.from({ length: 10 }, () => tenant.client.createStack({ body: body() })))
  const report = (n: number, phase: 'applied' | 'removed', some: typeof stacks) =>
    client.reportStatus({
      params: { id: agent.id },
      body: {
        session: 1,
        n,
        stacks: some.map(({ id }) => ({ stack_id: id, rev: n, object_id: null, phase, observed_at: new Date().toISOString() })),
      },
    })
  expect(await report(1, 'applied', stacks)).toMatchObject({ accepted: 10 })
  const remove = ['agents', 'remove', agent.name, '--prune', '--yes']
  expect(await cli.fails(7, ...remove, '--timeout', '1s')).toContain('at most 10 stacks')
  expect(await broker.admin.getAgent({ params: { id: agent.id } })).toMatchObject({ name: agent.name })
  await report(2, 'removed', stacks)
  expect(await cli.ok(...remove)).toContain(`agent ${agent.name} deleted`)
})
