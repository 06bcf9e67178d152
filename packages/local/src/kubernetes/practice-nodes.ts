// Simulated nodes: created here, updated by KWOK; the node controller removes their first taint.
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeApi } from './api-call.ts'

type NodeObject = {
  metadata: { name: string }
  spec: { taints?: unknown[] }
  status: { conditions?: { type: string; status: string }[] }
}

/** Creates nodes practice-0 … practice-<count - 1> and waits until they are schedulable. */
export async function ensurePracticeNodes(api: Pick<KubeApi, 'call'>, count: number, limitMs: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `practice-${index}`)
  for (const name of names) await createNode(api, name)
  const end = performance.now() + limitMs
  for (;;) {
    const notReadyNames = await listNotReady(api, names)
    if (notReadyNames.length === 0) return
    if (performance.now() > end) throw new Error(`nodes ${notReadyNames.join(', ')} were not ready within ${limitMs / 1000} s`)
    await sleep(50)
  }
}

async function createNode(api: Pick<KubeApi, 'call'>, name: string): Promise<void> {
  const labels = {
    'kubernetes.io/hostname': name,
    'kubernetes.io/os': 'linux',
    'kubernetes.io/arch': 'amd64',
    'practice.brokkr.io/simulated': 'true',
  }
  const body = { apiVersion: 'v1', kind: 'Node', metadata: { name, labels } }
  const { status, json } = await api.call('POST', '/api/v1/nodes', { body })
  if (status !== 201 && status !== 409) throw new Error(`the API server rejected node ${name} with ${status}: ${JSON.stringify(json)}`)
}

async function listNotReady(api: Pick<KubeApi, 'call'>, names: readonly string[]): Promise<string[]> {
  const { json } = await api.call<{ items?: NodeObject[] }>('GET', '/api/v1/nodes')
  const readyNames = new Set((json.items ?? []).filter(isSchedulable).map((node) => node.metadata.name))
  return names.filter((name) => !readyNames.has(name))
}

function isSchedulable(node: NodeObject): boolean {
  const isReady = node.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false
  return isReady && (node.spec.taints ?? []).length === 0
}
