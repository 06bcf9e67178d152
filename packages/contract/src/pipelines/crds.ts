// The CustomResourceDefinitions of Pipeline and Promotion, generated from the schemas of this folder.
import { z } from 'zod'
import { PipelineSpec } from './pipeline-spec.ts'
import { PipelineStatus } from './pipeline-status.ts'
import { PromotionSpec, PromotionStatus } from './promotion.ts'

export interface Crd {
  readonly apiVersion: 'apiextensions.k8s.io/v1'
  readonly kind: 'CustomResourceDefinition'
  readonly metadata: { readonly name: string }
  readonly spec: Readonly<Record<string, unknown>>
}

interface Column {
  readonly name: string
  readonly type: 'string' | 'date' | 'integer'
  readonly jsonPath: string
  readonly priority?: number
}

export const pipelineCrd = (): Crd =>
  buildCrd({
    group: 'pipelines.weave.works',
    names: { kind: 'Pipeline', listKind: 'PipelineList', plural: 'pipelines', singular: 'pipeline' },
    columns: [
      { name: 'App Kind', type: 'string', jsonPath: '.spec.appRef.kind' },
      { name: 'App Name', type: 'string', jsonPath: '.spec.appRef.name' },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
      { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
      { name: 'Status', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message' },
    ],
    spec: PipelineSpec,
    status: PipelineStatus,
  })

export const promotionCrd = (): Crd =>
  buildCrd({
    group: 'pipelines.brokkr.io',
    names: { kind: 'Promotion', listKind: 'PromotionList', plural: 'promotions', singular: 'promotion', shortNames: ['promo'] },
    columns: [
      { name: 'Pipeline', type: 'string', jsonPath: '.spec.pipelineRef.name' },
      { name: 'Environment', type: 'string', jsonPath: '.spec.environment' },
      { name: 'Revision', type: 'string', jsonPath: '.spec.revision' },
      { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
      { name: 'Pull Request', type: 'string', jsonPath: '.status.effect.prUrl', priority: 1 },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ],
    spec: PromotionSpec,
    status: PromotionStatus,
  })

function buildCrd(parts: {
  group: string
  names: Record<string, unknown> & { plural: string }
  columns: readonly Column[]
  spec: z.ZodType
  status: z.ZodType
}): Crd {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${parts.names.plural}.${parts.group}` },
    spec: {
      group: parts.group,
      scope: 'Namespaced',
      names: parts.names,
      versions: [
        {
          name: 'v1alpha1',
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: parts.columns,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                spec: toStructural(parts.spec),
                status: toStructural(parts.status),
              },
            },
          },
        },
      ],
    },
  }
}

const toStructural = (schema: z.ZodType): unknown => clean(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input' }))

/** Drops what a structural schema may not hold: the dialect, and keys that zod adds to records. */
function clean(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(clean)
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node)
      .filter(([key]) => key !== '$schema' && key !== 'propertyNames')
      .map(([key, value]) => [key, clean(value)]),
  )
}
