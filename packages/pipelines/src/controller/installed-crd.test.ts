import { pipelineCrd, promotionCrd } from '@brokkr/contract/pipelines/crds.ts'
import { valueAt } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { findMissingField, requiredFields } from './installed-crd.ts'

const crds: Readonly<Record<string, typeof pipelineCrd>> = { Pipeline: pipelineCrd, Promotion: promotionCrd }

/** The OpenAPI document of an installed definition, without one field. */
function toDocument(kind: string, removed?: string): unknown {
  const [version] = crds[kind]!().spec['versions'] as { schema: { openAPIV3Schema: unknown } }[]
  const schema = structuredClone(version!.schema.openAPIV3Schema)
  const parts = removed?.split('.') ?? []
  const parent = valueAt(schema, ...parts.slice(0, -1).flatMap((part) => ['properties', part]), 'properties')
  if (removed !== undefined) delete (parent as Record<string, unknown>)[parts.at(-1)!]
  return { components: { schemas: { [`io.example.v1alpha1.${kind}List`]: {}, [`io.example.v1alpha1.${kind}`]: schema } } }
}

test.each(requiredFields)('the definition of $kind in this release has every required field', (required) => {
  expect(findMissingField(toDocument(required.kind), required)).toBe(null)
})

test.each(requiredFields.flatMap((required) => required.fields.map((field) => ({ required, field, kind: required.kind }))))(
  'a definition of $kind without $field is reported',
  ({ required, field, kind }) => {
    expect(findMissingField(toDocument(kind, field), required)).toBe(field)
  },
)

test('the required fields include those that later releases added', () => {
  expect(requiredFields.flatMap(({ fields }) => fields)).toEqual(
    expect.arrayContaining(['status.run', 'status.run.firstRevision', 'status.lease.uid', 'status.effect.withdrawnAt']),
  )
})

test('a document without the kind lacks its first field', () => {
  expect(findMissingField({ components: { schemas: {} } }, requiredFields[0]!)).toBe('status.run')
  expect(findMissingField(null, requiredFields[0]!)).toBe('status.run')
})
