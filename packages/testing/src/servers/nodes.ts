// Nodes in the shared control plane, played by KWOK: pods that are scheduled become ready without a container engine.
import { callServers } from './owner/client.ts'

/** Makes sure that the shared plane has at least so many nodes that take pods; returns the names of the first ones. */
export async function nodes(count = 1): Promise<string[]> {
  if (!Number.isSafeInteger(count) || count < 1 || count > 100) throw new RangeError(`between 1 and 100 nodes can be played, not ${count}`)
  await callServers('kube.plane', { controllers: true, nodes: count })
  return Array.from({ length: count }, (_, index) => `practice-${index}`)
}
