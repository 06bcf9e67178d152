// The demo: one small stack, submitted through the public API by an ordinary generator, and waited for until the agent
// says that it is applied.
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@brokkr/contract/client.ts'
import { CliError } from '../output.ts'
import { type AgentAt, agentLabel } from './agent-program.ts'
import type { BrokerAt } from './broker-program.ts'
import type { Done } from './progress.ts'
import type { UpContext } from './up.ts'

const manifest = `apiVersion: v1
kind: Namespace
metadata:
  name: hello
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: greeting
  namespace: hello
data:
  text: Hello from Brokkr
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: hello
spec:
  selector: { app: web }
  ports: [{ port: 80, targetPort: 8080 }]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: hello
spec:
  replicas: 2
  selector:
    matchLabels: { app: web }
  template:
    metadata:
      labels: { app: web }
    spec:
      containers:
        - name: web
          image: example.invalid/hello:1
          ports: [{ containerPort: 8080 }]
`
const waitLimitMs = 60_000

export async function ensureDemo({ signal }: UpContext, broker: BrokerAt, agent: AgentAt): Promise<Done<void>> {
  const client = createClient({ baseUrl: broker.url, pak: () => agent.generatorPak, userAgent: 'brokkr-up' })
  const [found] = await client.listStacks({ query: { name: 'hello' } })
  const stack =
    found ??
    (await client.createStack({
      body: { name: 'hello', description: 'The demo of brokkr up', generator_id: agent.generatorId, labels: [agentLabel] },
    }))
  const params = { id: stack.id }
  const objects = await client.listDeploymentObjects({ params, query: { content: false } })
  if (objects.length === 0) await client.createDeploymentObject({ params, body: { yaml_content: manifest } })
  const endMs = Date.now() + waitLimitMs
  for (;;) {
    const { agents, desired_sequence_id } = await client.getStackStatus({ params })
    const [one] = agents
    if (one?.phase === 'applied' && one.sequence_id === desired_sequence_id)
      return { detail: `stack hello is applied at sequence ${desired_sequence_id}`, value: undefined }
    if (Date.now() > endMs)
      throw new CliError('the demo stack was not applied', {
        next: 'brokkr describe stack hello',
        cause: new Error(`${one?.phase ?? 'no report'} ${one?.code ?? ''} ${one?.message ?? ''}`),
      })
    await sleep(200, undefined, { signal })
  }
}
