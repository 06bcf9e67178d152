// The Secret that hands a flow to its processor: the spec with its secrets resolved and its orders, and the salt of its hash. Pure.
import { createHmac } from 'node:crypto'
import { OneShots, ProcessorSpec, processorSpecText } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { labelsOf, ownerOf, secretName } from '../names.ts'

export interface SpecSecret {
  readonly object: KubeObject
  /** Tells one spec from another and nothing about what is in it. */
  readonly specHash: string
}

/** `flow` has its secrets resolved. The flag of a reset is not part of the text: its id is. */
export function specSecret(owner: KubeObject, flow: Flow, parts: { readonly oneShots: OneShots; readonly salt: Buffer }): SpecSecret {
  const { name, namespace } = owner.metadata
  const text = processorSpecText({ ...flow, checkpointReset: undefined }, { kind: flow.kind, oneShots: parts.oneShots })
  const object = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: secretName(name), namespace: namespace ?? '', labels: labelsOf(name), ownerReferences: [ownerOf(owner)] },
    type: 'Opaque',
    data: { 'spec.json': Buffer.from(text).toString('base64'), salt: parts.salt.toString('base64') },
  }
  return { object, specHash: createHmac('sha256', parts.salt).update(text).digest('hex') }
}

/** What the Secret that is there says; nothing where there is none, or none that can be read. */
export function readSpecSecret(secret: KubeObject | undefined): { oneShots: OneShots; salt: Buffer | undefined } {
  const decoded = (key: string): Buffer | undefined => {
    const text = textAt(secret, 'data', key)
    return text === undefined ? undefined : Buffer.from(text, 'base64')
  }
  return { oneShots: ordersIn(decoded('spec.json')), salt: decoded('salt') }
}

function ordersIn(spec: Buffer | undefined): OneShots {
  try {
    return ProcessorSpec.parse(JSON.parse(String(spec))).oneShots
  } catch {
    return OneShots.parse({})
  }
}
