// One Secret per work order in the agent's own namespace. While the order runs it holds the order, so that the next process
// continues it. It also lists the Jobs and BuildRuns that the order created, by UID: only those are removed by a later attempt or
// by clean-up; labels of other objects do not matter. The text of an order may hold anything, so it is dropped when the order ends.
import { gunzipSync, gzipSync } from 'node:zlib'
import { hasReason, type Kube, type KubeObject, selectorOf, textAt } from '@brokkr/kube'
import { z } from 'zod'
import { OWNER_LABEL } from '../reconcile/plan/ownership-metadata.ts'
import { ORDER_LABEL, type Order } from './order.ts'

const SavedOrder = z.object({
  id: z.string(),
  work_type: z.string(),
  yaml_content: z.string(),
  claim_timeout_seconds: z.int(),
  attempt: z.int(),
  claimedAtMs: z.number(),
})
const CreatedObject = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  namespace: z.string().optional(),
  name: z.string(),
  uid: z.string().min(1),
  attempt: z.int(),
})
export type CreatedObject = z.output<typeof CreatedObject>
const Saved = z.object({ order: SavedOrder.nullable(), created: z.array(CreatedObject), endedAtMs: z.number().nullable() })
type Saved = z.output<typeof Saved>

const SECRET = { apiVersion: 'v1', kind: 'Secret' }
const dataKey = 'order.json.gz'
const bytesMax = 32 * 1024 * 1024

export interface EndedOrder {
  readonly id: string
  readonly endedAtMs: number
  readonly created: readonly CreatedObject[]
}
export interface ClaimStore {
  /** Orders that have not ended. */
  all(signal: AbortSignal): Promise<Order[]>
  keep(order: Order, signal: AbortSignal): Promise<void>
  /** Objects of this and earlier attempts. */
  created(id: string, signal: AbortSignal): Promise<readonly CreatedObject[]>
  addCreated(order: Order, object: KubeObject, signal: AbortSignal): Promise<void>
  /** Keeps only what clean-up needs, or nothing. */
  end(id: string, nowMs: number): Promise<void>
  ended(signal: AbortSignal): Promise<EndedOrder[]>
  forget(id: string): Promise<void>
}

export function createClaimStore(deps: { kube: Kube }, namespace: string, agentId: string): ClaimStore {
  const toSecretName = (id: string) => `brokkr-order-${id}`
  const list = async (signal: AbortSignal) => {
    const labelSelector = `${selectorOf({ [OWNER_LABEL]: agentId })},${ORDER_LABEL}`
    const { items } = await deps.kube.list(SECRET, { namespace, labelSelector, signal })
    return items.flatMap((secret) => {
      const saved = parseSaved(secret)
      return saved === null ? [] : [{ id: secret.metadata.labels?.[ORDER_LABEL] ?? '', ...saved }]
    })
  }
  const read = async (id: string, signal?: AbortSignal): Promise<Saved> =>
    parseSaved(await deps.kube.find({ ...SECRET, namespace, name: toSecretName(id) }, { signal })) ?? nothing
  const write = async (id: string, saved: Saved, signal?: AbortSignal): Promise<void> => {
    const labels = { [OWNER_LABEL]: agentId, [ORDER_LABEL]: id }
    const data = { [dataKey]: gzipSync(JSON.stringify(saved)).toString('base64') }
    const metadata = { name: toSecretName(id), namespace, labels }
    const secret = { ...SECRET, metadata, type: 'brokkr.io/work-order', data }
    await deps.kube.apply(secret, { fieldManager: 'brokkr-agent', force: true, signal })
  }
  const forget = async (id: string): Promise<void> => {
    try {
      await deps.kube.delete({ ...SECRET, namespace, name: toSecretName(id) })
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  }
  return {
    all: async (signal) => (await list(signal)).flatMap(({ order }) => order ?? []),
    keep: async (order, signal) =>
      write(order.id, { order: SavedOrder.parse(order), created: (await read(order.id, signal)).created, endedAtMs: null }, signal),
    created: async (id, signal) => (await read(id, signal)).created,
    async addCreated(order, object, signal) {
      const saved = await read(order.id, signal)
      const entry = toCreated(object, order.attempt)
      const others = saved.created.filter(({ uid }) => uid !== entry.uid)
      await write(order.id, { ...saved, created: [...others, entry] }, signal)
    },
    async end(id, nowMs) {
      const { created } = await read(id)
      await (created.length === 0 ? forget(id) : write(id, { order: null, created, endedAtMs: nowMs }))
    },
    ended: async (signal) =>
      (await list(signal)).flatMap(({ id, endedAtMs, created }) => (endedAtMs === null ? [] : [{ id, endedAtMs, created }])),
    forget,
  }
}

const nothing: Saved = { order: null, created: [], endedAtMs: null }

const toCreated = ({ apiVersion, kind, metadata: { namespace, name, uid } }: KubeObject, attempt: number): CreatedObject =>
  CreatedObject.parse({ apiVersion, kind, ...(namespace === undefined ? {} : { namespace }), name, uid, attempt })

function parseSaved(secret: KubeObject | undefined): Saved | null {
  try {
    const bytes = gunzipSync(Buffer.from(textAt(secret, 'data', dataKey) ?? '', 'base64'), { maxOutputLength: bytesMax })
    return Saved.parse(JSON.parse(bytes.toString('utf8')))
  } catch {
    return null
  }
}
