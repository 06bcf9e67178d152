// The sockets that were open while exchanges 1178 to 1228 were recorded, with the frames that their agent sent.
import type { TestBroker } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { openSocket, type TestSocket } from '../../live/socket-client.fixture.ts'
import type { Bindings } from './v1-exchange.fixture.ts'

export interface ReplaySockets {
  /** Brings the sockets to the state of the record before the exchange is sent. */
  prepare(seq: number): Promise<void>
  close(): void
}

const agentPath = '/internal/ws/agent'

export function createReplaySockets(broker: TestBroker, bindings: Bindings): ReplaySockets {
  const open: TestSocket[] = []
  const openAs = async (path: string, pak: string) => {
    const socket = await openSocket(broker, path, { pak: bindings.get(pak)! })
    open.push(socket)
    return socket
  }
  let agent: TestSocket | null = null
  let live: TestSocket | null = null
  const steps: Readonly<Record<number, () => Promise<void>>> = {
    1178: async () => {
      live = await openAs(`/api/v1/stacks/${bindings.get('<uuid:33>')}/live`, '<pak:generator-a>')
      await openAs('/api/v1/fleet/live', '<pak:admin>')
      agent = await openAs(agentPath, '<pak:agent-a>')
    },
    1193: async () => {
      for (const frame of agentFrames(bindings)) agent?.ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame))
      await live?.waitForFrame('the last frame of the agent', ({ type, body }) => type === 'log_gap' && body['dropped_count'] === 7)
      const healthIs = async () => {
        const { health_records } = await broker.admin.getDeploymentHealth({ params: { id: bindings.get('<uuid:62>')! } })
        return health_records.some(({ checked_at }) => checked_at.startsWith('2026-01-02T05'))
      }
      await waitFor('the health report', healthIs)
    },
    1226: async () => {
      await openAs(agentPath, '<pak:agent-a>')
      await agent?.closed
    },
  }
  return {
    prepare: async (seq) => steps[seq]?.(),
    close: () => {
      for (const socket of open) socket.ws.terminate()
    },
  }
}

const agentFrames = (bindings: Bindings): (object | string)[] => {
  const [agent_id, other_id] = [bindings.get('<uuid:8>'), bindings.get('<uuid:9>')]
  const [stack_id, foreign_id, deployment_object_id] = [bindings.get('<uuid:33>'), bindings.get('<uuid:34>'), bindings.get('<uuid:62>')]
  const id = '00000000-0000-0000-0000-000000000000'
  const time = '2026-01-02T03:04:05Z'
  const pod = { api_version: 'v1', kind: 'Pod', namespace: 'default', name: 'web-1', uid: 'u-1' }
  const node = { api_version: 'v1', kind: 'Node', namespace: null, name: 'n1', uid: null }
  const event = (more: object) => ({
    type: 'k8s_event',
    body: {
      agent_id,
      stack_id,
      observed_at: '2026-01-02T03:04:05.5Z',
      reason: 'Started',
      message: 'Started container',
      event_type: 'Normal',
      source: 'kubelet',
      involved_object: pod,
      ...more,
    },
  })
  const line = (ts: string, text: string) => ({
    type: 'pod_log_line',
    body: { agent_id, stack_id, namespace: 'default', pod: 'web-1', container: 'web', ts, line: text },
  })
  const gap = (more: object) => ({
    type: 'log_gap',
    body: { agent_id, stack_id, since_ts: time, dropped_count: 1, reason: 'buffer_full', ...more },
  })
  const summary = '{"pods_ready":2,"pods_total":2,"conditions":[]}'
  const about = { id, agent_id, deployment_object_id, created_at: time, updated_at: time }
  return [
    { type: 'heartbeat', body: { agent_id, sent_at: time, k8s_reachable: false, k8s_api_latency_ms: 99 } },
    { type: 'agent_event', body: { ...about, deleted_at: null, event_type: 'DEPLOY', status: 'SUCCESS', message: 'over the socket' } },
    { type: 'agent_health', body: { ...about, status: 'healthy', summary, checked_at: '2026-01-02T05:00:00Z' } },
    event({}),
    event({ reason: 'BackOff', event_type: 'Warning', source: null, involved_object: node }),
    line('2026-01-02T03:04:06.123456789Z', 'hello'),
    line('2026-01-02T03:04:07Z', 'second line'),
    event({ agent_id: other_id, reason: 'ForeignAgent' }),
    event({ stack_id: foreign_id, reason: 'ForeignStack' }),
    gap({ agent_id: other_id }),
    { type: 'stack_changed', body: { id: stack_id } },
    { type: 'no_such_type', body: {} },
    'this is not JSON',
    { type: 'heartbeat', body: {} },
    gap({ reason: 'other' }),
    gap({ dropped_count: 7, reason: 'rate_limit' }),
  ]
}
