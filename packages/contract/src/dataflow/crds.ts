// CustomResourceDefinitions of DataFlow and DataFlowCron, generated from the schemas of this folder. Blocks of connectors and transforms keep
// unknown fields. Enums, bounds and the rule of replicas hold in the API server itself, so they hold without the webhook.
import { z } from 'zod'
import { sinks, sources } from './connectors/index.ts'
import { DataFlowCronSpec, DataFlowSpec } from './spec/schema.ts'
import { transforms } from './spec/transforms.ts'
import { DataFlowCronStatus, DataFlowStatus } from './status.ts'
import { toCelRule, toStructural } from './structural-schema.ts'

export interface FlowCrd {
  readonly apiVersion: 'apiextensions.k8s.io/v1'
  readonly kind: 'CustomResourceDefinition'
  readonly metadata: { readonly name: string }
  readonly spec: Readonly<Record<string, unknown>>
}

type Node = Record<string, unknown>

const columns = [
  { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
  { name: 'Source', type: 'string', jsonPath: '.spec.source.type' },
  { name: 'Sink', type: 'string', jsonPath: '.spec.sink.type' },
  { name: 'Processed', type: 'integer', jsonPath: '.status.processedCount' },
  { name: 'Errors', type: 'integer', jsonPath: '.status.errorCount' },
  { name: 'Lag', type: 'integer', jsonPath: '.status.lag.messages' },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  { name: 'Message', type: 'string', jsonPath: '.status.message', priority: 1 },
]

/** A transformation takes few hundred bytes; the bound keeps the cost of the rules below the limit of the API server. */
const transformationsMax = 200

export const dataFlowCrd = (): FlowCrd =>
  buildCrd({
    names: { kind: 'DataFlow', listKind: 'DataFlowList', plural: 'dataflows', singular: 'dataflow', shortNames: ['df'] },
    spec: withRules(DataFlowSpec, {
      rule: "!has(self.replicas) || self.replicas <= 1 || (has(self.source.type) && self.source.type.trim().lowerAscii() == 'kafka')",
      message: 'spec.replicas: only kafka sources run with more than one replica',
    }),
    status: DataFlowStatus,
    scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
  })

export const dataFlowCronCrd = (): FlowCrd =>
  buildCrd({
    names: {
      kind: 'DataFlowCron',
      listKind: 'DataFlowCronList',
      plural: 'dataflowcrons',
      singular: 'dataflowcron',
      shortNames: ['dfc'],
    },
    spec: withRules(DataFlowCronSpec, {
      rule: '!has(self.replicas) || self.replicas <= 1',
      message: 'spec.replicas: a scheduled flow runs with one replica',
    }),
    status: DataFlowCronStatus,
  })

function withRules(schema: z.ZodType, replicas: { rule: string; message: string }): Node {
  const spec = toStructural(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input' })) as Node & { properties: Record<string, Node> }
  const { properties } = spec
  addTypes(properties['source']!, 'spec.source.type', Object.keys(sources))
  addTypes(properties['sink']!, 'spec.sink.type', Object.keys(sinks))
  addTypes(properties['errors']!, 'spec.errors.type', Object.keys(sinks))
  const steps = properties['transformations'] as Node & { items: Node }
  steps['maxItems'] = transformationsMax
  addTypes(steps.items, 'spec.transformations: type', Object.keys(transforms))
  return { ...spec, 'x-kubernetes-validations': [replicas] }
}

function addTypes(part: Node, path: string, types: readonly string[]): void {
  const { type } = part['properties'] as Record<string, Node>
  Object.assign(type!, toCelRule(types, path))
}

function buildCrd(parts: { names: Node & { plural: string }; spec: Node; status: z.ZodType; scale?: Node }): FlowCrd {
  const status = toStructural(z.toJSONSchema(parts.status, { target: 'openapi-3.0', io: 'input' }))
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${parts.names.plural}.dataflow.dataflow.io` },
    spec: {
      group: 'dataflow.dataflow.io',
      scope: 'Namespaced',
      names: parts.names,
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {}, ...(parts.scale === undefined ? {} : { scale: parts.scale }) },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                spec: parts.spec,
                status,
              },
            },
          },
        },
      ],
    },
  }
}
