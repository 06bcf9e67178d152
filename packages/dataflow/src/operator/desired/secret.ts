// Secret that passes a flow to its processor: the spec with resolved secrets, its one-shots, and the salt of its hash. Pure.
import { createHmac } from 'node:crypto'
import { OneShots, ProcessorSpec, processorSpecText } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { type KubeObject, textAt } from '@brokkr/kube'
import { childMetadata, type Owner, secretName } from '../names.ts'
import { hashSecretEnv } from './pod.ts'

export interface SpecSecret {
  readonly object: KubeObject
  /** Salted hash of the spec: differs between specs and reveals nothing about their content. */
  readonly specHash: string
  /** Salted hash of the secret environment; undefined without one. Not part of specHash, so that its rotation counts as an upgrade. */
  readonly secretEnvHash: string | undefined
}

export interface SecretParts {
  readonly oneShots: OneShots
  readonly salt: Buffer
  /** Locations of the values that came from secrets. */
  readonly secretPlaces: ProcessorSpec['secretPlaces']
  /** Environment of the processor that must not be in clear text; keys beside the spec. */
  readonly secretEnv: Readonly<Record<string, string>>
}

/** `flow` has its secrets resolved. */
export function specSecret(owner: Owner, flow: Flow, { oneShots, salt, secretPlaces, secretEnv }: SecretParts): SpecSecret {
  const text = processorSpecText(forProcessor(flow), { kind: flow.kind, oneShots, secretPlaces })
  const object = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: childMetadata(owner, secretName(owner)),
    type: 'Opaque',
    data: {
      'spec.json': encode(text),
      salt: salt.toString('base64'),
      ...Object.fromEntries(Object.entries(secretEnv).map(([key, value]) => [key, encode(value)])),
    },
  }
  return { object, specHash: createHmac('sha256', salt).update(text).digest('hex'), secretEnvHash: hashSecretEnv(secretEnv, salt) }
}

const encode = (text: string): string => Buffer.from(text).toString('base64')

/** Without fields that only the operator reads: their changes do not roll the pod. A processor only distinguishes one replica from several. */
const forProcessor = (flow: Flow): Flow => ({
  ...flow,
  checkpointReset: undefined,
  maintenance: undefined,
  processorImage: undefined,
  processorVersion: undefined,
  nodeSelector: undefined,
  affinity: undefined,
  tolerations: undefined,
  imagePullSecrets: undefined,
  replicas: Math.min(Math.max(flow.replicas, 1), 2),
})

export interface StoredSpec {
  readonly oneShots: OneShots
  readonly salt: Buffer | undefined
  /** Undefined if the Secret is missing or unreadable. */
  readonly spec: ProcessorSpec | undefined
}

/** Content of the existing Secret. */
export function readSpecSecret(secret: KubeObject | undefined): StoredSpec {
  const decoded = (key: string): Buffer | undefined => {
    const text = textAt(secret, 'data', key)
    return text === undefined ? undefined : Buffer.from(text, 'base64')
  }
  const spec = parseSpec(decoded('spec.json'))
  return { oneShots: spec?.oneShots ?? OneShots.parse({}), salt: decoded('salt'), spec }
}

function parseSpec(text: Buffer | undefined): ProcessorSpec | undefined {
  try {
    return ProcessorSpec.parse(JSON.parse(String(text)))
  } catch {
    return undefined
  }
}
