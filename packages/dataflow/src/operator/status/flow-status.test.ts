import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import type { KubeObject } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { listTransitions } from './events.ts'
import { judgeFlow, type StatusInput } from './flow-status.ts'
import { noMaintenance } from './maintenance.ts'

const nowMs = Date.parse('2026-01-01T00:00:00Z')
const object = { kind: 'DataFlow', metadata: { name: 'orders', namespace: 'shop', uid: 'u', generation: 2 } }
const deployment = (ready: number, more: object = {}): KubeObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'dataflow-orders', generation: 1 },
  spec: { replicas: 1 },
  status: { observedGeneration: 1, replicas: 1, readyReplicas: ready, ...more },
})
const progress = (more: Partial<Progress> = {}): Progress => ({
  readCount: 9,
  processedCount: 7,
  writtenCount: 7,
  droppedCount: 0,
  errorCount: 0,
  countersSince: '2025-12-31T00:00:00Z',
  pod: 'pod-1',
  version: '1',
  isReady: true,
  specHash: 'x',
  position: 'orders[0]=7',
  lag: { messages: 2 },
  flowing: { status: 'True', reason: 'Flowing', message: '' },
  exactlyOnce: { status: 'True', reason: 'PositionInSink', message: '' },
  openMessages: 0,
  openBytes: 0,
  notices: [],
  ...more,
})
const judge = (more: Partial<StatusInput> = {}) =>
  judgeFlow({
    object,
    before: {},
    failure: undefined,
    wanted: { count: 1, stopped: undefined },
    specHash: 'h',
    deployment: deployment(1),
    pods: [],
    answers: [progress()],
    answersAtMs: nowMs,
    maintenance: noMaintenance,
    oneShots: {},
    nowMs,
    ...more,
  })
const since = (seconds: number) => new Date(nowMs - seconds * 1000).toISOString()
const blocked = (seconds: number) => ({
  since: since(seconds),
  stage: 'sink' as const,
  connector: 'postgresql',
  errorType: 'auth_error',
  message: 'refused',
  position: '',
})
const starting = (seconds: number) => ({
  phase: 'Pending',
  conditions: [
    { type: 'ProcessorDeploymentReady', status: 'False', reason: 'DeploymentStarting', message: '', lastTransitionTime: since(seconds) },
  ],
})
const crashing: KubeObject = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p' },
  status: { containerStatuses: [{ state: { waiting: { reason: 'CrashLoopBackOff' } } }] },
}

test.each<[string, Partial<StatusInput>, string, string]>([
  ['a ready processor', {}, 'Running', '1/1 processors ready'],
  ['no ready processor', { deployment: deployment(0) }, 'Pending', '0/1 processors ready'],
  [
    'none ready for ten minutes',
    { deployment: deployment(0), before: starting(601) },
    'Error',
    '0/1 processors ready for 10 minutes; see the pods of Deployment dataflow-orders',
  ],
  [
    'a crash loop',
    { deployment: deployment(0), pods: [crashing] },
    'Error',
    '0/1 processors ready: CrashLoopBackOff; see the pods of Deployment dataflow-orders',
  ],
  ['blocked for a moment', { answers: [progress({ blocked: blocked(59) })] }, 'Running', '1/1 processors ready'],
  ['blocked for a minute', { answers: [progress({ blocked: blocked(60) })] }, 'Error', 'sink postgresql: refused'],
  ['stopped', { wanted: { count: 0, stopped: 'paused by hand' } }, 'Stopped', 'paused by hand'],
  ['invalid', { failure: { at: 'valid', message: 'spec.sink: is required' } }, 'Error', 'spec.sink: is required'],
  [
    'a Deployment that has not seen the new spec',
    { deployment: deployment(1, { observedGeneration: 0 }), before: { specHash: 'old' } },
    'Pending',
    '0/1 processors ready',
  ],
])('the phase of a flow with %s', (_title, more, phase, message) => {
  expect(judge(more)).toMatchObject({ phase, message })
})

test('unchanged observations keep their time for five minutes, so that an idle flow causes no write', () => {
  const first = judge()
  const again = (ms: number) => judge({ before: first, answersAtMs: nowMs + ms, nowMs: nowMs + ms })
  expect(again(30_000)).toEqual(first)
  expect(again(300_000).progress?.observedAt).toBe(new Date(nowMs + 300_000).toISOString())
})

test('without an answer figures stay, and are stale after 90 seconds', () => {
  const first = judge()
  const later = (ms: number) => judge({ before: first, answers: [], nowMs: nowMs + ms })
  expect(later(90_000)).toEqual(first)
  const stale = later(90_001)
  expect(stale).toMatchObject({ processedCount: 7, progress: { stale: true } })
  expect(stale.conditions?.find(({ type }) => type === 'Flowing')).toMatchObject({ status: 'Unknown', reason: 'Stale' })
})

test('a stopped flow is not stale, and has no rate', () => {
  const first = judge({ processedPerSecond: 3 })
  const stopped = judge({ before: first, answers: [], wanted: { count: 0, stopped: 'paused by hand' }, nowMs: nowMs + 600_000 })
  expect(stopped).toMatchObject({ processedCount: 7, progress: { stale: false } })
  expect([first.processedPerSecond, stopped.processedPerSecond]).toEqual([3, undefined])
  expect(listTransitions(first, stopped).map(({ reason }) => reason)).toEqual(['Paused'])
  expect(listTransitions(stopped, first).map(({ reason }) => reason)).toEqual(['Resumed'])
})

test('one event per transition', () => {
  const failed = judge({ failure: { at: 'resolved', reason: 'NotShared', message: 'not shared' } })
  expect(listTransitions({}, failed).map(({ reason }) => reason)).toEqual(['SecretResolutionFailed'])
  expect(listTransitions(failed, failed)).toEqual([])
  const block = judge({ answers: [progress({ blocked: blocked(1), appliedRewind: 'r1' })] })
  expect(listTransitions(judge(), block).map(({ reason }) => reason)).toEqual(['Blocked', 'Rewound'])
})
