// The calls of the load as they go over the wire, one lane per connection: each has an agent or a stack of its own, as in a fleet.
import { buildManifest, type Fleet } from './fill.ts'
import { risingNumber } from './rising-number.ts'

export const connections = 32

type Lane = readonly string[]
const lanes = (make: (n: number) => Lane, count = connections): Lane[] => Array.from({ length: count }, (_, n) => make(n))

function request(method: string, path: string, { pak, body, text = '' }: { pak: string; body?: unknown; text?: string }): string {
  if (body !== undefined) return request(method, path, { pak, text: JSON.stringify(body) })
  const type = text === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n`
  return `${method} /api/v1${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${pak}\r\n${type}\r\n${text}`
}

const selectAgent = ({ agents }: Fleet, n: number) => agents[n % agents.length]!

export const getStack = (fleet: Fleet): Lane[] =>
  lanes((n) => selectAgent(fleet, n).stackIds.map((id) => request('GET', `/stacks/${id}`, { pak: fleet.generator.pak })))

export const heartbeat = (fleet: Fleet): Lane[] =>
  lanes((n) => {
    const { id, pak } = selectAgent(fleet, n)
    return [
      request('POST', `/agents/${id}/heartbeat`, { pak, body: { k8s_reachable: true, k8s_api_latency_ms: 4, agent_version: '1.0.0' } }),
    ]
  })

export const postEvent = (fleet: Fleet): Lane[] =>
  lanes((n) => {
    const { id, pak, headIds } = selectAgent(fleet, n)
    const event = (objectId: string) => ({ agent_id: id, deployment_object_id: objectId, event_type: 'DEPLOY', status: 'SUCCESS' })
    return headIds.map((objectId) => request('POST', `/agents/${id}/events`, { pak, body: { ...event(objectId), message: 'applied' } }))
  })

/** Every connection reports on the same agent and deployment object. */
export const postEventContended = (fleet: Fleet): Lane[] => {
  const { id, pak, headIds } = selectAgent(fleet, 0)
  const body = { agent_id: id, deployment_object_id: headIds[0], event_type: 'DEPLOY', status: 'SUCCESS', message: 'applied' }
  return lanes(() => [request('POST', `/agents/${id}/events`, { pak, body })])
}

export const listAgents = (_fleet: Fleet, adminPak: string): Lane[] => lanes(() => [request('GET', '/agents?limit=200', { pak: adminPak })])

/** How one stack stands, newer each time. */
export const reportStatus = (fleet: Fleet): Lane[] =>
  lanes((n) => {
    const { id, pak, stackIds, headIds } = selectAgent(fleet, n)
    return stackIds.map((stack_id, at) => {
      const report = { stack_id, rev: 1, object_id: headIds[at], phase: 'applied', attempts: 1, observed_at: '2026-01-02T03:04:05Z' }
      const text = JSON.stringify({ session: 1, n: risingNumber, stacks: [report] }).replace(`"${risingNumber}"`, risingNumber)
      return request('POST', `/agents/${id}/status`, { pak, text })
    })
  })

export const submit = (fleet: Fleet): Lane[] =>
  lanes((n) => {
    const yaml_content = buildManifest(2048)
    const [id] = selectAgent(fleet, n).stackIds
    return [request('POST', `/stacks/${id}/deployment-objects`, { pak: fleet.generator.pak, body: { yaml_content } })]
  })

export const targetState = (fleet: Fleet, count = 1): Lane[] =>
  lanes((n) => {
    const { id, pak } = selectAgent(fleet, n)
    return [request('GET', `/agents/${id}/target-state?mode=full`, { pak })]
  }, count)

/** One reader for all agents, one after the other. */
export const targetStatesInTurn = ({ agents }: Fleet): Lane[] => [
  agents.map(({ id, pak }) => request('GET', `/agents/${id}/target-state?mode=full`, { pak })),
]

/** Pages from the middle of a list, as readers page through it. */
export const pages = (pak: string, paths: readonly string[], count = 16): Lane[] =>
  lanes(() => paths.map((path) => request('GET', path, { pak })), count)
