// One small object from submit to cluster and back on an idle machine: commit → frame, submit → applied status, and beside it
// the sum of the bare requests to the same API server (a dry run and an apply). PostgreSQL with fsync, shipped defaults.
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker } from '@brokkr/testing/broker.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { residentMib, spread, tell } from '../figures.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 200)
const at = await cluster()
const server = await privatePostgres({ fsync: true })
const broker = await startTestBroker({ databaseUrl: (await server.database()).url, env: { BROKKR__LOG__LEVEL: 'info' } })
const tenant = await createGenerator(broker)
const agent = await createAgent(broker, { labels: ['bench'], generators: [tenant] })
const watcher = await createAgent(broker, { labels: ['bench'], generators: [tenant] })
const running = await startTestAgent({
  broker,
  agent,
  kubeconfigPath: at.kubeconfigPath,
  namespace: await at.namespace('agent'),
  env: { BROKKR__LOG__LEVEL: 'info' },
})
const namespace = await at.namespace('bench')
const stack = await tenant.client.createStack({ body: { name: 'bench', generator_id: tenant.generator.id, labels: ['bench'] } })
const stream = await readStream(broker.url, { agentId: watcher.agent.id, pak: watcher.pak })
await stream.frame('snapshot_end')

const manifest = (value: number) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'bench', namespace }, data: { value: String(value) } })
const frames: number[] = []
const applied: number[] = []
const bare: number[] = []
for (let round = 1; round <= rounds; round += 1) {
  const started = performance.now()
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: manifest(round) } })
  const answered = performance.now()
  await waitFor('frame', () => stream.frames.some((frame) => frame.type === 'put' && frame.object?.id === object.id), { everyMs: 1 })
  frames.push(performance.now() - answered)
  await waitFor(
    'applied',
    async () => {
      const [status] = (await tenant.client.getStackStatus({ params: { id: stack.id } })).agents.filter(
        (one) => one.agent_id === agent.agent.id,
      )
      return status?.phase === 'applied' && status.sequence_id === object.sequence_id
    },
    { everyMs: 2 },
  )
  applied.push(performance.now() - started)
  const path = `/api/v1/namespaces/${namespace}/configmaps/bare?fieldManager=bare&force=true`
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'bare', namespace }, data: { value: String(round) } }
  const bareStarted = performance.now()
  await at.api('PATCH', `${path}&dryRun=All`, { body, contentType: 'application/apply-patch+yaml' })
  await at.api('PATCH', path, { body, contentType: 'application/apply-patch+yaml' })
  bare.push(performance.now() - bareStarted)
}
tell('answer of submit → frame received', spread(frames))
tell('submit → status applied is readable', spread(applied))
tell('bare: dry run + apply of the same object', spread(bare))
tell('resident memory broker, agent', `${residentMib(broker.pid).toFixed(0)} MiB, ${residentMib(running.pid).toFixed(0)} MiB`)
stream.close()
await running.stop()
await broker.stop()
await server.stop()
