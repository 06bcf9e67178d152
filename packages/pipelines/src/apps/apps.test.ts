import type { AppRef } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { KubeObject } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { readApp, trimApp } from './index.ts'
import { imageRevision } from './workloads.ts'

type Parts = { metadata?: object; spec?: object; status?: object; operation?: object }
const apiVersions: Record<string, string> = {
  HelmRelease: 'helm.toolkit.fluxcd.io/v2',
  Kustomization: 'kustomize.toolkit.fluxcd.io/v1',
  Application: 'argoproj.io/v1alpha1',
  Widget: 'example.com/v1',
}
/** Reads the object as it is and as an informer keeps it: both must say the same. */
function read(kind: string, parts: Parts, revisionFrom?: AppRef['revisionFrom']): string {
  const apiVersion = apiVersions[kind] ?? 'apps/v1'
  const object = { apiVersion, kind, metadata: { name: 'a', generation: 2, ...parts.metadata }, ...omitMetadata(parts) } as KubeObject
  const appRef = { apiVersion, kind, name: 'a', ...(revisionFrom ? { revisionFrom } : {}) }
  const reading = readApp(object, appRef)
  expect(readApp(trimApp(appRef)(object), appRef)).toEqual(reading)
  return `${reading.revision ?? '-'} ${reading.ready ? 'ready' : 'not ready'}${reading.error === null ? '' : `: ${reading.error}`}`
}
const omitMetadata = ({ metadata: _metadata, ...rest }: Parts): Omit<Parts, 'metadata'> => rest
const ready = (status = 'True', more: object = {}) => [{ type: 'Ready', status, ...more }]
const flux = (more: object = {}, conditions: object[] = ready()) => ({
  status: { conditions, observedGeneration: 2, lastAppliedRevision: 'r1', ...more },
})
const history = [
  { version: 2, status: 'superseded', chartVersion: '6.0.0' },
  { version: 3, status: 'deployed', chartVersion: '6.0.1' },
]

test.each([
  ['HelmRelease', 'without a status', {}, '- not ready'],
  ['HelmRelease', 'without conditions', { status: { observedGeneration: -1 } }, '- not ready'],
  ['HelmRelease', 'with a deployed history entry', flux({ history }), '6.0.1 ready'],
  [
    'HelmRelease',
    'with a newer failed entry',
    flux({ history: [...history, { version: 4, status: 'failed', chartVersion: '6.0.2' }] }, ready('False')),
    '6.0.1 not ready',
  ],
  [
    'HelmRelease',
    'with a newer failed entry and a late Ready',
    flux({ history: [...history, { version: 4, status: 'failed', chartVersion: '6.0.2' }] }),
    '6.0.1 not ready',
  ],
  ['HelmRelease', 'without history', flux(), 'r1 ready'],
  ['HelmRelease', 'that is suspended', { ...flux({ history }), spec: { suspend: true } }, '6.0.1 not ready: the object is suspended'],
  ['HelmRelease', 'that is stalled', flux({ history }, [...ready(), { type: 'Stalled', status: 'True' }]), '6.0.1 not ready'],
  [
    'HelmRelease',
    'without a revision',
    flux({ lastAppliedRevision: '' }),
    '- not ready: ready without a revision: set appRef.revisionFrom',
  ],
  ['Kustomization', 'that is ready', flux({ lastAppliedRevision: 'main@sha1:abc' }), 'main@sha1:abc ready'],
  [
    'Kustomization',
    'behind its generation',
    flux({ observedGeneration: 1 }),
    'r1 not ready: status.observedGeneration 1 is behind metadata.generation 2',
  ],
  [
    'Kustomization',
    'with an old Ready condition',
    flux({}, ready('True', { observedGeneration: 1 })),
    'r1 not ready: the Ready condition observed generation 1, the object has 2',
  ],
  [
    'Kustomization',
    'that is being deleted',
    { ...flux(), metadata: { deletionTimestamp: 'x' } },
    'r1 not ready: the object is being deleted',
  ],
  ['Widget', 'that is ready', flux(), 'r1 ready'],
  ['Widget', 'that is not ready', flux({}, ready('False')), 'r1 not ready'],
] as const)('%s %s is read', (kind, _what, parts, expected) => {
  expect(read(kind, parts as Parts)).toBe(expected)
})

const source = { repoURL: 'https://example.com/r', path: '.', targetRevision: 'main' }
const argo = (more: object = {}, sync: object = {}) => ({
  spec: { source },
  status: {
    sync: { status: 'Synced', revision: 'abc', comparedTo: { source: { ...source, ref: '' } }, ...sync },
    health: { status: 'Healthy' },
    reconciledAt: '2026-01-01T00:00:10Z',
    ...more,
  },
})
test.each([
  ['that is synced and healthy', argo(), 'abc ready'],
  ['without a status', { spec: { source } }, '- not ready'],
  ['with an operation', { ...argo(), operation: { sync: {} } }, 'abc not ready'],
  ['with a running operation', argo({ operationState: { phase: 'Running' } }), 'abc not ready'],
  ['compared before its sync ended', argo({ operationState: { phase: 'Succeeded', finishedAt: '2026-01-01T00:00:11Z' } }), 'abc not ready'],
  ['compared after its sync ended', argo({ operationState: { phase: 'Succeeded', finishedAt: '2026-01-01T00:00:10Z' } }), 'abc ready'],
  ['compared with another source', argo({}, { comparedTo: { source: { ...source, targetRevision: 'next' } } }), 'abc not ready'],
  ['that is degraded', argo({ health: { status: 'Degraded' } }), 'abc not ready'],
  [
    'with several sources',
    { ...argo({}, { revisions: ['a', 'b'], comparedTo: { sources: [source] } }), spec: { sources: [source] } },
    'a,b ready',
  ],
])('Application %s is read', (_what, parts, expected) => {
  expect(read('Application', parts)).toBe(expected)
})

const pods = (image: string) => ({
  template: {
    metadata: { labels: { v: 'l1' } },
    spec: {
      containers: [
        { name: 'main', image },
        { name: 'side', image: 's:9' },
      ],
    },
  },
})
const rolled = { observedGeneration: 2, updatedReplicas: 2, replicas: 2, availableReplicas: 2, currentRevision: 'x', updateRevision: 'x' }
const scheduled = { observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3 }
test.each([
  ['Deployment', 'rolled out', { spec: { replicas: 2, ...pods('r.io:5000/a/b:v2') }, status: rolled }, undefined, 'v2 ready'],
  [
    'Deployment',
    'in the middle of a rollout',
    { spec: { replicas: 2, ...pods('a:v2') }, status: { ...rolled, updatedReplicas: 1 } },
    undefined,
    'v2 not ready',
  ],
  [
    'Deployment',
    'with old pods left',
    { spec: { replicas: 2, ...pods('a:v2') }, status: { ...rolled, replicas: 3 } },
    undefined,
    'v2 not ready',
  ],
  [
    'Deployment',
    'scaled to zero',
    { spec: { replicas: 0, ...pods('a:v2') }, status: { observedGeneration: 2 } },
    undefined,
    'v2 not ready',
  ],
  ['Deployment', 'that is paused', { spec: { replicas: 2, paused: true, ...pods('a:v2') }, status: rolled }, undefined, 'v2 not ready'],
  [
    'Deployment',
    'past its progress deadline',
    { spec: { replicas: 2, ...pods('a:v2') }, status: { ...rolled, conditions: [{ type: 'Progressing', status: 'False' }] } },
    undefined,
    'v2 not ready',
  ],
  [
    'Deployment',
    'without a tag',
    { spec: { replicas: 2, ...pods('r.io:5000/a') }, status: rolled },
    undefined,
    '- not ready: the image r.io:5000/a has neither a tag nor a digest',
  ],
  ['Deployment', 'by another container', { spec: { replicas: 2, ...pods('a:v2') }, status: rolled }, { container: 'side' }, '9 ready'],
  [
    'Deployment',
    'by a missing container',
    { spec: { replicas: 2, ...pods('a:v2') }, status: rolled },
    { container: 'no' },
    '- not ready: there is no container no',
  ],
  ['Deployment', 'by a label', { spec: { replicas: 2, ...pods('a') }, status: rolled }, { label: 'v' }, 'l1 ready'],
  ['StatefulSet', 'rolled out', { spec: { replicas: 2, ...pods('a@sha256:1') }, status: rolled }, undefined, 'sha256:1 ready'],
  [
    'StatefulSet',
    'between two revisions',
    { spec: { replicas: 2, ...pods('a:v2') }, status: { ...rolled, updateRevision: 'y' } },
    undefined,
    'v2 not ready',
  ],
  [
    'StatefulSet',
    'with a partition',
    { spec: { replicas: 2, updateStrategy: { rollingUpdate: { partition: 1 } }, ...pods('a:v2') }, status: rolled },
    undefined,
    'v2 not ready',
  ],
  ['DaemonSet', 'rolled out', { spec: pods('a:v2'), status: scheduled }, undefined, 'v2 ready'],
  [
    'DaemonSet',
    'on no node',
    { spec: pods('a:v2'), status: { ...scheduled, desiredNumberScheduled: 0, updatedNumberScheduled: 0, numberAvailable: 0 } },
    undefined,
    'v2 not ready',
  ],
] as const)('%s %s is read', (kind, _what, parts, from, expected) => {
  expect(read(kind, parts as Parts, from)).toBe(expected)
})

test('a revision path selects any text of a kind without an adapter', () => {
  expect(read('Widget', { ...flux(), spec: { release: { version: 'v7' } } }, { path: 'spec.release.version' })).toBe('v7 ready')
})

test.each([
  ['a', null],
  ['a:1', '1'],
  ['r:5000/a', null],
  ['r:5000/a:1@sha256:f', 'sha256:f'],
  ['a@', null],
])('the revision of image %s is %s', (image, expected) => {
  expect(imageRevision(image)).toBe(expected)
})
