import { cluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import type { Kube } from '../client/kube.ts'
import { type KubeObject, refOf } from '../client/object.ts'
import { deployment, openTestKube } from '../test-parts/open-test-kube.ts'
import { judgeHealth } from './index.ts'
import { findOwningMember } from './owner-chain.ts'
import type { Verdict } from './verdict.ts'

let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
  kube = await openTestKube(at)
})

/** As the agent does: pods of the namespace, traced to the workload over ReplicaSets. */
/** `read`: as the server just answered; the next moment its controllers may be done already. */
async function judge(given: KubeObject, read?: KubeObject): Promise<Verdict> {
  const live = read ?? (await kube.get(refOf(given)))
  const { namespace } = given.metadata
  const [pods, sets] = await Promise.all([
    kube.list({ apiVersion: 'v1', kind: 'Pod' }, { namespace }),
    kube.list({ apiVersion: 'apps/v1', kind: 'ReplicaSet' }, { namespace }),
  ])
  const byUid = new Map(sets.items.map((set) => [set.metadata.uid, set]))
  const own = pods.items.filter((pod) =>
    findOwningMember(
      pod,
      (uid) => uid === live.metadata.uid,
      (uid) => byUid.get(uid),
    ),
  )
  return judgeHealth(live, { nowMs: Date.now(), pods: own })
}
const becomes = (given: KubeObject, state: string): Promise<Verdict> =>
  waitFor(`${given.kind} to be ${state}`, async () => {
    const verdict = await judge(given)
    return verdict.state === state ? verdict : undefined
  })
const template = (restartPolicy = 'Always') => ({
  metadata: { labels: { app: 'x' } },
  spec: { restartPolicy, containers: [{ name: 'main', image: 'example.invalid/app:1' }] },
})

test('a Deployment progresses, is ready, rolls out again and is ready again', async () => {
  const web = deployment(await at.namespace(), 'web', 3)
  await kube.create(web)
  expect(['progressing', 'ready']).toContain((await judge(web)).state)
  expect((await becomes(web, 'ready')).reason).toBe('Ready')
  const patched = await kube.patch(refOf(web), {
    type: 'merge',
    body: { spec: { template: { metadata: { annotations: { round: '2' } } } } },
  })
  expect((await judge(web, patched)).state).toBe('progressing')
  await becomes(web, 'ready')
})

test('an unschedulable pod makes its Deployment degraded with that reason', async () => {
  const web = deployment(await at.namespace(), 'web', 1)
  const given = {
    ...web,
    spec: {
      ...web.spec,
      template: {
        ...template(),
        metadata: { labels: { app: 'web' } },
        spec: { ...template().spec, nodeSelector: { 'example.com/none': 'x' } },
      },
    },
  }
  await kube.create(given)
  expect((await becomes(given, 'degraded')).reason).toBe('Unschedulable')
})

test('a StatefulSet becomes ready, and progresses while its revisions differ', async () => {
  const namespace = await at.namespace()
  const db: KubeObject = {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'db', namespace },
    spec: { replicas: 2, serviceName: 'db', selector: { matchLabels: { app: 'x' } }, template: template() },
  }
  await kube.create(db)
  await becomes(db, 'ready')
  const patched = await kube.patch(refOf(db), {
    type: 'merge',
    body: { spec: { template: { metadata: { annotations: { round: '2' } } } } },
  })
  expect((await judge(db, patched)).state).toBe('progressing')
  await becomes(db, 'ready')
})

test('a Job runs and completes', async () => {
  const namespace = await at.namespace()
  const job: KubeObject = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'j', namespace }, spec: { template: template('Never') } }
  await kube.create(job)
  expect((await becomes(job, 'ready')).reason).toBe('Complete')
})

test('a Job past its deadline is failing with that reason', async () => {
  const namespace = await at.namespace()
  const job: KubeObject = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'j', namespace },
    spec: {
      activeDeadlineSeconds: 1,
      template: { ...template('Never'), spec: { ...template('Never').spec, nodeSelector: { 'example.com/none': 'x' } } },
    },
  }
  await kube.create(job)
  expect((await becomes(job, 'failing')).reason).toBe('DeadlineExceeded')
})
