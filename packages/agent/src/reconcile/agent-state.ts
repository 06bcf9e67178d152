// The agent's own Secret: the key under which the content of members is hashed. Made once per cluster; with another key every
// member would look changed.
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { hasReason } from '@brokkr/kube/api-error.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { FIELD_MANAGER } from './marks.ts'

const name = 'brokkr-agent-state'
const keyBytes = 32

/** Makes the namespace and the Secret where they are missing. Two agents that start at once end up with one key. */
export async function ensureHashKey(deps: { kube: Kube }, namespace: string, signal: AbortSignal): Promise<KeyObject> {
  const ref = { apiVersion: 'v1', kind: 'Secret', namespace, name }
  for (let tries = 0; ; tries++) {
    const found = await deps.kube.find(ref, { signal })
    const key = Buffer.from(textAt(found, 'data', 'hash_key') ?? '', 'base64')
    if (key.length === keyBytes) return createSecretKey(key)
    if (found && tries > 0)
      throw new Error(`Secret ${namespace}/${name} holds no usable hash_key: delete it, and the agent makes a new one`)
    await ensureNamespace(deps.kube, namespace, signal)
    const data = { hash_key: randomBytes(keyBytes).toString('base64') }
    await unlessThere(
      deps.kube.create(
        { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, type: 'Opaque', data },
        { fieldManager: FIELD_MANAGER, signal },
      ),
    )
  }
}

export async function ensureNamespace(kube: Kube, namespace: string, signal: AbortSignal): Promise<void> {
  if (await kube.find({ apiVersion: 'v1', kind: 'Namespace', name: namespace }, { metadataOnly: true, signal })) return
  await unlessThere(
    kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }, { fieldManager: FIELD_MANAGER, signal }),
  )
}

async function unlessThere(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!hasReason(error, 'AlreadyExists')) throw error
  }
}
