import { expect, test } from 'vitest'
import { cutFields, findScaledTargets, listScaledPaths, parseIgnoredFields } from './ignore-fields.ts'

const object = (fields: string) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web', namespace: 'x', annotations: { 'brokkr.io/ignore-fields': fields } },
  spec: { replicas: 2, list: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k'] },
})

test.each([
  ['', []],
  ['/spec/replicas', [['spec', 'replicas']]],
  [
    ' /spec/replicas , /metadata/labels/a ',
    [
      ['spec', 'replicas'],
      ['metadata', 'labels', 'a'],
    ],
  ],
])('%j', (text, paths) => {
  expect(parseIgnoredFields(object(text))).toEqual({ ok: true, paths })
})

test.each(['spec/replicas', '/kind', '/apiVersion', '/metadata', '/metadata/name', '/metadata/namespace', '/metadata/labels', '/a~9'])(
  '%s is rejected by name',
  (text) => {
    const found = parseIgnoredFields(object(`/spec/replicas,${text}`))
    expect(found.ok ? null : found.problem).toMatchObject({ code: 'invalid', message: expect.stringContaining(JSON.stringify(text)) })
  },
)

test('several items of a list are removed by their original index', () => {
  const cut = cutFields(object(''), [
    ['spec', 'list', '2'],
    ['spec', 'list', '10'],
    ['spec', 'replicas'],
  ])
  expect(cut.spec).toEqual({ list: ['a', 'b', 'd', 'e', 'f', 'g', 'h', 'i', 'j'] })
})

test('replicas are ignored for the scale target of an HPA in its namespace', () => {
  const scaler = (namespace: string, apiVersion = 'apps/v1') => ({
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'h', namespace },
    spec: { scaleTargetRef: { apiVersion, kind: 'Deployment', name: 'web' } },
  })
  const scaled = findScaledTargets([object(''), scaler('x')])
  expect(listScaledPaths('Deployment.apps|x|web', scaled)).toEqual([['spec', 'replicas']])
  expect(listScaledPaths('Deployment.apps|y|web', scaled)).toEqual([])
  expect(listScaledPaths('Deployment.apps|x|web', findScaledTargets([scaler('x', 'example.com/v1')]))).toEqual([])
})
