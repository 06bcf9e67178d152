// The client configuration of a leaf cluster: which Secret a GitopsCluster names, and the kubeconfig in it. Pure.
import { createHash } from 'node:crypto'
import { BadKubeconfig, isTrue, type KubeConfig, type KubeObject, parseForeignKubeconfig, textAt } from '@brokkr/kube'

export interface LeafCluster {
  readonly namespace: string
  readonly name: string
  readonly isReady: boolean
  /** Secret beside the cluster object; null: the object names none. */
  readonly secretName: string | null
}

/** What is kept of a GitopsCluster. `spec.capiClusterRef` uses the Secret that Cluster API writes. */
export function toLeafCluster(object: KubeObject): LeafCluster {
  const secretName = textAt(object.spec, 'secretRef', 'name')
  const capiName = textAt(object.spec, 'capiClusterRef', 'name')
  return {
    namespace: object.metadata.namespace ?? '',
    name: object.metadata.name,
    isReady: isTrue(object, 'Ready') && object.metadata.deletionTimestamp === undefined,
    secretName: secretName || (capiName ? `${capiName}-kubeconfig` : null),
  }
}

const KEYS = ['kubeconfig', 'value', 'value.yaml'] as const

export type SecretConfig =
  | { readonly ok: true; readonly config: KubeConfig; readonly hash: string }
  | { readonly ok: false; readonly error: string }

/** The first non-empty key wins. Only inline data is accepted: a kubeconfig of another owner starts no program and reads no file. */
export function readKubeconfigSecret(secret: KubeObject): SecretConfig {
  const source = `Secret ${secret.metadata.namespace}/${secret.metadata.name}`
  const encoded = KEYS.map((key) => textAt(secret.data, key)).find((value) => value !== undefined && value !== '')
  if (encoded === undefined) return { ok: false, error: `${source} has none of the keys ${KEYS.join(', ')}` }
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  try {
    const hash = createHash('sha256').update(text).digest('hex')
    return { ok: true, config: parseForeignKubeconfig(text, { source }), hash }
  } catch (error) {
    if (!(error instanceof BadKubeconfig)) throw error
    const isUnsafe = /refused|not supported/.test(error.message)
    return { ok: false, error: `${isUnsafe ? 'KubeconfigUnsafe' : 'KubeconfigInvalid'}: ${error.message}` }
  }
}
