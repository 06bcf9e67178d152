// Node objects that KWOK plays: made by us, filled in and kept alive by KWOK, freed from their first taint by the node controller.
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeApi } from './kube-api.ts'

type NodeObject = {
  metadata: { name: string }
  spec: { taints?: unknown[] }
  status: { conditions?: { type: string; status: string }[] }
}

/** Makes sure that nodes practice-0 … practice-<count - 1> are there and take pods. */
export async function ensurePracticeNodes(api: Pick<KubeApi, 'call'>, count: number, limitMs: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `practice-${index}`)
  for (const name of names) await createNode(api, name)
  const end = performance.now() + limitMs
  for (;;) {
    const waiting = await namesNotReady(api, names)
    if (waiting.length === 0) return
    if (performance.now() > end) throw new Error(`nodes ${waiting.join(', ')} were not ready within ${limitMs / 1000} s`)
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
  if (status !== 201 && status !== 409) throw new Error(`the API server refused node ${name} with ${status}: ${JSON.stringify(json)}`)
}

async function namesNotReady(api: Pick<KubeApi, 'call'>, names: readonly string[]): Promise<string[]> {
  const { json } = await api.call<{ items?: NodeObject[] }>('GET', '/api/v1/nodes')
  const ready = new Set((json.items ?? []).filter(takesPods).map((node) => node.metadata.name))
  return names.filter((name) => !ready.has(name))
}

function takesPods(node: NodeObject): boolean {
  const isReady = node.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false
  return isReady && (node.spec.taints ?? []).length === 0
}
