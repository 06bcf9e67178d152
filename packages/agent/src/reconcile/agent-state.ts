// The agent's own Secret: the key of the content hashes. Created once per cluster, because with another key every member would look
// changed.
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { hasReason, type Kube, textAt } from '@brokkr/kube'
import { FIELD_MANAGER } from './plan/ownership-metadata.ts'

const name = 'brokkr-agent-state'
const keyBytes = 32

/** Creates the namespace and the Secret if they are missing. Two agents that start at the same time get one key. */
export async function ensureHashKey(deps: { kube: Kube }, namespace: string, signal: AbortSignal): Promise<KeyObject> {
  const ref = { apiVersion: 'v1', kind: 'Secret', namespace, name }
  for (let tries = 0; ; tries++) {
    const existing = await deps.kube.find(ref, { signal })
    const key = Buffer.from(textAt(existing, 'data', 'hash_key') ?? '', 'base64')
    if (key.length === keyBytes) return createSecretKey(key)
    if (existing && tries > 0)
      throw new Error(`Secret ${namespace}/${name} has no usable hash_key: delete it, and the agent creates a new one`)
    await ensureNamespace(deps.kube, namespace, signal)
    const data = { hash_key: randomBytes(keyBytes).toString('base64') }
    await ignoreConflict(
      deps.kube.create(
        { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type: 'Opaque', data },
        { fieldManager: FIELD_MANAGER, signal },
      ),
    )
  }
}

export async function ensureNamespace(kube: Kube, namespace: string, signal: AbortSignal): Promise<void> {
  if (await kube.find({ apiVersion: 'v1', kind: 'Namespace', name: namespace }, { metadataOnly: true, signal })) return
  await ignoreConflict(
    kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }, { fieldManager: FIELD_MANAGER, signal }),
  )
}

async function ignoreConflict(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!hasReason(error, 'AlreadyExists')) throw error
  }
}
