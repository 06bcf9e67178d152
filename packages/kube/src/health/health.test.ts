import { expect, test } from 'vitest'
import type { Fields, KubeObject } from '../client/object.ts'
import { judgeHealth } from './index.ts'
import { findOwningMember } from './owner-chain.ts'
import { summarizeHealth } from './summary.ts'
import type { HealthContext, HealthState } from './verdict.ts'

const nowMs = Date.parse('2026-01-01T12:00:00Z')
const ago = (minutes: number): string => new Date(nowMs - minutes * 60_000).toISOString()

const object = (apiVersion: string, kind: string, parts: { spec?: Fields; status?: Fields; metadata?: Fields }): KubeObject => ({
  apiVersion,
  kind,
  ...parts,
  metadata: { name: 'x', namespace: 'web', creationTimestamp: ago(1), ...parts.metadata },
})
const condition = (type: string, status: string, reason = '', message = '') => ({ type, status, reason, message })

const pod = (status: Fields, metadata: Fields = {}) => object('v1', 'Pod', { status, metadata: { name: 'p', ...metadata } })
const container = (state: Fields, more: Fields = {}) => ({ name: 'web', state, ...more })
const running = (status: Fields = {}) => pod({ phase: 'Running', conditions: [condition('Ready', 'True')], ...status })
const waitingPod = (reason: string) => pod({ phase: 'Pending', containerStatuses: [container({ waiting: { reason, message: 'why' } })] })
const deployment = (spec: Fields, status: Fields, metadata: Fields = {}) => object('apps/v1', 'Deployment', { spec, status, metadata })
const full = { replicas: 3, updatedReplicas: 3, availableReplicas: 3 }
const statefulSet = (spec: Fields, status: Fields) => object('apps/v1', 'StatefulSet', { spec, status })
const job = (status: Fields, spec: Fields = {}, metadata: Fields = {}) => object('batch/v1', 'Job', { spec, status, metadata })
const claim = (phase: string) => object('v1', 'PersistentVolumeClaim', { status: { phase } })
const flow = (status: Fields) => object('dataflow.dataflow.io/v1', 'DataFlow', { status })
const custom = (...conditions: Fields[]) => object('example.com/v1', 'Widget', { status: { conditions } })
const service = (type: string, status: Fields) => object('v1', 'Service', { spec: { type }, status })
const ingress = (minutes: number, status: Fields) =>
  object('networking.k8s.io/v1', 'Ingress', { status, metadata: { creationTimestamp: ago(minutes) } })

type Row = [name: string, object: KubeObject | undefined, state: HealthState, reason: string, context?: Partial<HealthContext>]

const podRows: Row[] = [
  ['a failed pod', pod({ phase: 'Failed', reason: 'Evicted' }), 'failing', 'PodFailed'],
  ['a pod of a lost node', pod({ phase: 'Unknown' }), 'unknown', 'PodUnknown'],
  ...'ImagePullBackOff ErrImagePull CrashLoopBackOff CreateContainerConfigError InvalidImageName RunContainerError ContainerCannotRun CreateContainerError ErrImageNeverPull ImageInspectError'
    .split(' ')
    .map((reason): Row => [`a pod that waits with ${reason}`, waitingPod(reason), 'degraded', reason]),
  ...'OOMKilled Error ContainerCannotRun'
    .split(' ')
    .map(
      (reason): Row => [
        `a container ended by ${reason}`,
        running({ containerStatuses: [container({ terminated: { reason } })] }),
        'degraded',
        reason,
      ],
    ),
  [
    'a container that was OOMKilled before',
    running({ containerStatuses: [container({ running: {} }, { lastState: { terminated: { reason: 'OOMKilled' } } })] }),
    'degraded',
    'OOMKilled',
  ],
  [
    'a container that ended in another way before',
    running({ containerStatuses: [container({ running: {} }, { lastState: { terminated: { reason: 'Error' } } })] }),
    'ready',
    'Ready',
  ],
  [
    'an init container that crashes',
    pod({ phase: 'Pending', initContainerStatuses: [container({ waiting: { reason: 'CrashLoopBackOff' } })] }),
    'degraded',
    'InitContainer:CrashLoopBackOff',
  ],
  [
    'an init container that ended well',
    running({ initContainerStatuses: [container({ terminated: { reason: 'Completed' } })] }),
    'ready',
    'Ready',
  ],
  [
    'a pod no node takes',
    pod({ phase: 'Pending', conditions: [condition('PodScheduled', 'False', 'Unschedulable', '0/3 nodes')] }),
    'degraded',
    'Unschedulable',
  ],
  ['a pending pod', pod({ phase: 'Pending' }), 'progressing', 'Pending'],
  ['a pod whose container is being created', waitingPod('ContainerCreating'), 'progressing', 'Pending'],
  ['a running pod that is not ready', pod({ phase: 'Running', conditions: [condition('Ready', 'False')] }), 'progressing', 'NotReady'],
  [
    'a pod that succeeded',
    pod({ phase: 'Succeeded', containerStatuses: [container({ terminated: { reason: 'Completed' } })] }),
    'ready',
    'Succeeded',
  ],
  ['a ready pod', running(), 'ready', 'Ready'],
]

const workloadRows: Row[] = [
  [
    'a rollout past its deadline',
    deployment({ replicas: 3 }, { ...full, conditions: [condition('Progressing', 'False', 'ProgressDeadlineExceeded')] }),
    'failing',
    'ProgressDeadlineExceeded',
  ],
  [
    'a deployment that cannot make pods',
    deployment({ replicas: 3 }, { ...full, conditions: [condition('ReplicaFailure', 'True', 'FailedCreate')] }),
    'degraded',
    'ReplicaFailure',
  ],
  ['a deployment with old replicas to update', deployment({ replicas: 3 }, { ...full, updatedReplicas: 1 }), 'progressing', 'RollingOut'],
  ['a deployment with old replicas to remove', deployment({ replicas: 3 }, { ...full, replicas: 4 }), 'progressing', 'RollingOut'],
  ['a deployment that becomes available', deployment({ replicas: 3 }, { ...full, availableReplicas: 2 }), 'progressing', 'Unavailable'],
  [
    'a deployment that lost replicas after its rollout',
    deployment(
      { replicas: 3 },
      { ...full, availableReplicas: 2, conditions: [condition('Progressing', 'True', 'NewReplicaSetAvailable')] },
    ),
    'degraded',
    'Unavailable',
  ],
  ['a deployment of none', deployment({ replicas: 0 }, {}), 'ready', 'ScaledToZero'],
  ['a deployment without a number wants one', deployment({}, {}), 'progressing', 'RollingOut'],
  ['a complete deployment', deployment({ replicas: 3 }, full), 'ready', 'Ready'],
  [
    'a stateful set with too few ready',
    statefulSet({ replicas: 3 }, { readyReplicas: 2, updatedReplicas: 3 }),
    'progressing',
    'Unavailable',
  ],
  [
    'a stateful set with too few updated',
    statefulSet({ replicas: 3 }, { readyReplicas: 3, updatedReplicas: 2 }),
    'progressing',
    'RollingOut',
  ],
  [
    'a stateful set updated above its partition',
    statefulSet(
      { replicas: 3, updateStrategy: { rollingUpdate: { partition: 2 } } },
      { readyReplicas: 3, updatedReplicas: 1, currentRevision: 'a', updateRevision: 'b' },
    ),
    'ready',
    'Ready',
  ],
  [
    'a stateful set of two revisions',
    statefulSet({ replicas: 3 }, { readyReplicas: 3, updatedReplicas: 3, currentRevision: 'a', updateRevision: 'b' }),
    'progressing',
    'RollingOut',
  ],
  [
    'a stateful set updated by hand',
    statefulSet(
      { replicas: 3, updateStrategy: { type: 'OnDelete' } },
      { readyReplicas: 3, updatedReplicas: 0, currentRevision: 'a', updateRevision: 'b' },
    ),
    'ready',
    'Ready',
  ],
  ...(['updatedNumberScheduled', 'numberAvailable', 'numberReady'] as const).map(
    (short): Row => [
      `a daemon set short of ${short}`,
      object('apps/v1', 'DaemonSet', {
        status: { desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2, numberReady: 2, [short]: 1 },
      }),
      'progressing',
      'RollingOut',
    ],
  ),
  [
    'a complete daemon set',
    object('apps/v1', 'DaemonSet', {
      status: { desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2, numberReady: 2 },
    }),
    'ready',
    'Ready',
  ],
  [
    'a replica set short of one',
    object('apps/v1', 'ReplicaSet', { spec: { replicas: 2 }, status: { availableReplicas: 1 } }),
    'progressing',
    'Unavailable',
  ],
  [
    'a complete replication controller',
    object('v1', 'ReplicationController', { spec: { replicas: 1 }, status: { availableReplicas: 1 } }),
    'ready',
    'Ready',
  ],
  ['a failed job', job({ conditions: [condition('Failed', 'True', 'BackoffLimitExceeded')] }), 'failing', 'BackoffLimitExceeded'],
  ['a complete job', job({ conditions: [condition('Complete', 'True')] }), 'ready', 'Complete'],
  ['a suspended job', job({}, { suspend: true }), 'ready', 'Suspended'],
  ['a running job', job({ active: 1 }), 'progressing', 'Running'],
  ['a cron job without jobs', object('batch/v1', 'CronJob', {}), 'ready', 'Ready'],
  [
    'a cron job whose last job failed',
    object('batch/v1', 'CronJob', {}),
    'degraded',
    'LastJobFailed',
    {
      jobs: [
        job({ conditions: [condition('Complete', 'True')] }, {}, { creationTimestamp: ago(9) }),
        job({ conditions: [condition('Failed', 'True')] }, {}, { creationTimestamp: ago(1) }),
      ],
    },
  ],
  [
    'a cron job whose last but one failed',
    object('batch/v1', 'CronJob', {}),
    'ready',
    'Ready',
    {
      jobs: [
        job({ conditions: [condition('Failed', 'True')] }, {}, { creationTimestamp: ago(9) }),
        job({ conditions: [condition('Complete', 'True')] }, {}, { creationTimestamp: ago(1) }),
      ],
    },
  ],
]

const otherRows: Row[] = [
  ['a bound claim', claim('Bound'), 'ready', 'Bound'],
  ['a claim that lost its volume', claim('Lost'), 'failing', 'Lost'],
  ['a claim that waits', claim('Pending'), 'progressing', 'Pending'],
  ['a claim that waits for a first pod', claim('Pending'), 'ready', 'WaitForFirstConsumer', { waitsForConsumer: true }],
  ['a service', service('ClusterIP', {}), 'ready', 'Ready'],
  ['a load balancer without address', service('LoadBalancer', { loadBalancer: {} }), 'progressing', 'NoAddress'],
  ['a load balancer with address', service('LoadBalancer', { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } }), 'ready', 'Ready'],
  ['a young ingress without address', ingress(4, {}), 'progressing', 'NoAddress'],
  ['an old ingress without address', ingress(6, {}), 'ready', 'NoAddress'],
  [
    'an established definition',
    object('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { status: { conditions: [condition('Established', 'True')] } }),
    'ready',
    'Established',
  ],
  [
    'a definition whose names are taken',
    object('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { status: { conditions: [condition('NamesAccepted', 'False')] } }),
    'failing',
    'NamesNotAccepted',
  ],
  ['a new definition', object('apiextensions.k8s.io/v1', 'CustomResourceDefinition', {}), 'progressing', 'NotEstablished'],
  [
    'an available API service',
    object('apiregistration.k8s.io/v1', 'APIService', { status: { conditions: [condition('Available', 'True')] } }),
    'ready',
    'Available',
  ],
  [
    'an API service that does not answer',
    object('apiregistration.k8s.io/v1', 'APIService', {
      status: { conditions: [condition('Available', 'False', 'FailedDiscoveryCheck')] },
    }),
    'degraded',
    'FailedDiscoveryCheck',
  ],
  ['an active namespace', object('v1', 'Namespace', { status: { phase: 'Active' } }), 'ready', 'Active'],
  ['a namespace that ends', object('v1', 'Namespace', { status: { phase: 'Terminating' } }), 'progressing', 'Terminating'],
  [
    'an autoscaler that cannot scale',
    object('autoscaling/v2', 'HorizontalPodAutoscaler', {
      status: { conditions: [condition('ScalingActive', 'False', 'FailedGetResourceMetric')] },
    }),
    'degraded',
    'FailedGetResourceMetric',
  ],
  ['an autoscaler', object('autoscaling/v2', 'HorizontalPodAutoscaler', {}), 'ready', 'Ready'],
  ['a config map', object('v1', 'ConfigMap', {}), 'ready', 'Ready'],
  ['a flow in error', flow({ phase: 'Error' }), 'failing', 'Error'],
  ['a flow not heard of', flow({ phase: 'Running', progress: { stale: true } }), 'unknown', 'Stale'],
  ['a flow that is blocked', flow({ phase: 'Running', conditions: [condition('Flowing', 'False', 'Blocked')] }), 'degraded', 'Blocked'],
  ['a running flow', flow({ phase: 'Running', conditions: [condition('Ready', 'True', 'Running')] }), 'ready', 'Ready'],
  ['a paused flow', flow({ phase: 'Stopped', message: 'paused by hand' }), 'ready', 'Stopped'],
  ['a flow in maintenance', flow({ phase: 'Stopped', message: 'in maintenance until 2026-01-02T00:00:00Z' }), 'ready', 'Stopped'],
  ['a flow that starts', flow({ phase: 'Pending' }), 'progressing', 'Pending'],
  ['a stalled resource', custom(condition('Stalled', 'True', 'Broken'), condition('Ready', 'False')), 'failing', 'Broken'],
  ['a reconciling resource', custom(condition('Reconciling', 'True'), condition('Ready', 'True')), 'progressing', 'Reconciling'],
  ...['Ready', 'Available', 'Healthy', 'Succeeded'].flatMap((type): Row[] => [
    [`${type} True`, custom(condition(type, 'True')), 'ready', type],
    [`${type} False`, custom(condition(type, 'False', 'Why')), 'degraded', 'Why'],
    [`${type} Unknown`, custom(condition(type, 'Unknown')), 'progressing', type],
  ]),
  ['a failed resource', custom(condition('Failed', 'True', 'No')), 'failing', 'No'],
  ['a resource without conditions', custom(), 'ready', 'Ready'],
  ['a kind named like a property of every object', object('v1', 'toString', {}), 'ready', 'Ready'],
  [
    'nonsense where conditions should be',
    object('example.com/v1', 'Widget', { status: { conditions: ['x', 1, null, { type: 'Ready' }] } }),
    'ready',
    'Ready',
  ],
]

const anyRows: Row[] = [
  ['an absent object', undefined, 'degraded', 'Missing'],
  ['an object being deleted', deployment({ replicas: 3 }, full, { deletionTimestamp: ago(1) }), 'progressing', 'Terminating'],
  [
    'an object whose controller has not looked yet',
    deployment({ replicas: 3 }, { ...full, observedGeneration: 1 }, { generation: 2 }),
    'progressing',
    'OutOfDate',
  ],
  [
    'progress that stands still for 10 min',
    deployment({ replicas: 3 }, { ...full, updatedReplicas: 1 }),
    'degraded',
    'RollingOut',
    { unchangedSinceMs: nowMs - 600_000 },
  ],
  [
    'progress that stands still for less',
    deployment({ replicas: 3 }, { ...full, updatedReplicas: 1 }),
    'progressing',
    'RollingOut',
    { unchangedSinceMs: nowMs - 599_000 },
  ],
  ['a job that takes long', job({ active: 1 }), 'progressing', 'Running', { unchangedSinceMs: nowMs - 86_400_000 }],
]

const coverRows: Row[] = [
  [
    'a rollout whose pod cannot be pulled',
    deployment({ replicas: 1 }, { replicas: 1, updatedReplicas: 1 }),
    'degraded',
    'ImagePullBackOff',
    { pods: [waitingPod('ImagePullBackOff')] },
  ],
  [
    'lost replicas and a crashing pod',
    deployment(
      { replicas: 1 },
      { replicas: 1, updatedReplicas: 1, conditions: [condition('Progressing', 'True', 'NewReplicaSetAvailable')] },
    ),
    'degraded',
    'CrashLoopBackOff',
    { pods: [waitingPod('CrashLoopBackOff')] },
  ],
  [
    'a deadline and a crashing pod',
    deployment({ replicas: 3 }, { ...full, conditions: [condition('Progressing', 'False', 'ProgressDeadlineExceeded')] }),
    'failing',
    'ProgressDeadlineExceeded',
    { pods: [waitingPod('CrashLoopBackOff')] },
  ],
  [
    'an evicted pod beside a ready deployment',
    deployment({ replicas: 3 }, full),
    'ready',
    'Ready',
    { pods: [pod({ phase: 'Failed', reason: 'Evicted' }), running()] },
  ],
  [
    'a failed pod while its deployment is not ready',
    deployment({ replicas: 3 }, { ...full, availableReplicas: 1 }),
    'failing',
    'PodFailed',
    { pods: [pod({ phase: 'Failed' })] },
  ],
  ['a failed try of a running job', job({ active: 1 }), 'progressing', 'Running', { pods: [pod({ phase: 'Failed' })] }],
  ['a running job whose pod cannot be pulled', job({ active: 1 }), 'degraded', 'ErrImagePull', { pods: [waitingPod('ErrImagePull')] }],
  [
    'a pod on its way out',
    deployment({ replicas: 3 }, full),
    'ready',
    'Ready',
    { pods: [pod({ phase: 'Running' }, { deletionTimestamp: ago(1) })] },
  ],
]

test.each([...anyRows, ...podRows, ...workloadRows, ...otherRows, ...coverRows])('%s', (_name, given, state, reason, context = {}) => {
  expect(judgeHealth(given, { nowMs, ...context })).toMatchObject({ state, reason })
})

test('a set has the worst health of its objects; progressing counts as degraded', () => {
  const of = (...states: HealthState[]) => summarizeHealth(states.map((state) => ({ state, reason: '', message: '' })))
  expect(of('ready', 'unknown', 'degraded', 'failing')).toEqual({ status: 'failing', progressing: false })
  expect(of('ready', 'unknown', 'degraded')).toEqual({ status: 'degraded', progressing: false })
  expect(of('ready', 'unknown')).toEqual({ status: 'unknown', progressing: false })
  expect(of('ready', 'unknown', 'progressing')).toEqual({ status: 'degraded', progressing: true })
  expect(of('ready')).toEqual({ status: 'healthy', progressing: false })
  expect(of()).toEqual({ status: 'unknown', progressing: false })
})

test('a pod is traced to its workload through at most four owners', () => {
  const owned = (uid: string, owner?: string) =>
    object('v1', 'Any', {
      metadata: {
        uid,
        ...(owner ? { ownerReferences: [{ apiVersion: 'v1', kind: 'Any', name: owner, uid: owner, controller: true }] } : {}),
      },
    })
  const chain = new Map(['a', 'b', 'c', 'd', 'e'].map((uid, index, all) => [uid, owned(uid, all[index + 1])]))
  const above = (from: string, member: string) =>
    findOwningMember(
      chain.get(from) as KubeObject,
      (uid) => uid === member,
      (uid) => chain.get(uid),
    )
  expect([above('a', 'c'), above('a', 'e'), above('a', 'z'), above('e', 'a')]).toEqual(['c', 'e', undefined, undefined])
})
