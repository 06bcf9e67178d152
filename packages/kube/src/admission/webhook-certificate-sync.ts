// Keeps a webhook's certificates in a Secret and their CA in the webhook configurations. The leader renews; every replica reads and serves.
import type { Certificate } from '@brokkr/runtime/certificates.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { rowsAt, textAt } from '../client/fields.ts'
import type { Kube } from '../client/kube.ts'
import { hasReason } from '../client/kube-error.ts'
import type { KubeObject, ObjectRef } from '../client/object.ts'
import { buildCaBundle, rotateCertificates, type WebhookCertificates } from './webhook-certificate.ts'

export interface CertificateSync {
  secret: { name: string; namespace: string }
  hosts: readonly string[]
  /** Webhook configurations whose caBundle this function writes. */
  configurations: readonly { kind: 'ValidatingWebhookConfiguration' | 'MutatingWebhookConfiguration'; name: string }[]
  /** If true, renews certificates and writes the caBundle. */
  lead: boolean
  fieldManager: string
  signal?: AbortSignal
}

/** Call it every few seconds. Returns the certificate to serve; undefined until the leader created it. */
export async function syncWebhookCertificate(
  deps: { kube: Kube; clock: Clock },
  options: CertificateSync,
): Promise<Certificate | undefined> {
  const ref: ObjectRef = { apiVersion: 'v1', kind: 'Secret', ...options.secret }
  const secret = await deps.kube.find(ref, { signal: options.signal })
  const stored = secret && decode(secret)
  if (!options.lead) return stored?.leaf
  const next = await rotateCertificates(stored, options.hosts, deps.clock.now())
  if (next !== stored) await save(deps.kube, encode(options.secret, next, secret?.metadata.resourceVersion), options)
  const bundle = Buffer.from(buildCaBundle(next)).toString('base64')
  for (const configuration of options.configurations) await writeCaBundle(deps.kube, configuration, bundle, options)
  return next.leaf
}

/** Ignores a conflict: the next call reads the certificate that the other writer stored. */
async function save(kube: Kube, secret: KubeObject, options: CertificateSync): Promise<void> {
  const call = { fieldManager: options.fieldManager, signal: options.signal }
  try {
    await (secret.metadata.resourceVersion ? kube.replace(secret, call) : kube.create(secret, call))
  } catch (error) {
    if (!hasReason(error, 'Conflict', 'AlreadyExists')) throw error
  }
}

async function writeCaBundle(
  kube: Kube,
  configuration: CertificateSync['configurations'][number],
  bundle: string,
  options: CertificateSync,
): Promise<void> {
  const ref = { apiVersion: 'admissionregistration.k8s.io/v1', ...configuration }
  const live = await kube.find(ref, { signal: options.signal })
  const stale = rowsAt(live, 'webhooks').flatMap((webhook, index) =>
    textAt(webhook, 'clientConfig', 'caBundle') === bundle ? [] : [{ index, name: textAt(webhook, 'name') }],
  )
  if (stale.length === 0) return
  // The test operation fails if the order of the webhooks changed.
  const body = stale.flatMap(({ index, name }) => [
    { op: 'test' as const, path: `/webhooks/${index}/name`, value: name },
    { op: 'add' as const, path: `/webhooks/${index}/clientConfig/caBundle`, value: bundle },
  ])
  await kube.patch(ref, { type: 'json', body }, { fieldManager: options.fieldManager, signal: options.signal })
}

const NEXT_SINCE = 'brokkr.io/next-ca-since'
const OLD_SINCE = 'brokkr.io/old-ca-since'

function encode(
  at: { name: string; namespace: string },
  certificates: WebhookCertificates,
  resourceVersion: string | undefined,
): KubeObject {
  const { ca, leaf, nextCa, oldCa } = certificates
  const text: Record<string, string | undefined> = {
    'ca.crt': ca.cert,
    'ca.key': ca.key,
    'tls.crt': leaf.cert,
    'tls.key': leaf.key,
    'next-ca.crt': nextCa?.pair.cert,
    'next-ca.key': nextCa?.pair.key,
    'old-ca.crt': oldCa?.cert,
  }
  const present = Object.entries(text).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, Buffer.from(value).toString('base64')]],
  )
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'kubernetes.io/tls',
    metadata: {
      ...at,
      ...(resourceVersion ? { resourceVersion } : {}),
      annotations: {
        ...(nextCa ? { [NEXT_SINCE]: String(nextCa.sinceMs) } : {}),
        ...(oldCa ? { [OLD_SINCE]: String(oldCa.sinceMs) } : {}),
      },
    },
    data: Object.fromEntries(present) as Record<string, string>,
  }
}

/** Undefined if the Secret is incomplete; it is then written again. */
function decode(secret: KubeObject): WebhookCertificates | undefined {
  const part = (key: string) => Buffer.from(textAt(secret.data, key) ?? '', 'base64').toString('utf8')
  const pair = (crt: string, key: string): Certificate | undefined =>
    part(crt) && part(key) ? { cert: part(crt), key: part(key) } : undefined
  const [ca, leaf, next] = [pair('ca.crt', 'ca.key'), pair('tls.crt', 'tls.key'), pair('next-ca.crt', 'next-ca.key')]
  const since = (key: string) => Number(secret.metadata.annotations?.[key] ?? 0)
  if (!ca || !leaf) return undefined
  return {
    ca,
    leaf,
    ...(next ? { nextCa: { pair: next, sinceMs: since(NEXT_SINCE) } } : {}),
    ...(part('old-ca.crt') ? { oldCa: { cert: part('old-ca.crt'), sinceMs: since(OLD_SINCE) } } : {}),
  }
}
