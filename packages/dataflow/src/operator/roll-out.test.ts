// A flow's spec and its orders on their way to the processor, against a real API server whose nodes are played: what a pod would be
// given is given to a real processor.
import { randomBytes } from 'node:crypto'
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { validate } from '@brokkr/contract/dataflow/validate.ts'
import { hasReason } from '@brokkr/kube/api-error.ts'
import { openKube } from '@brokkr/kube/client.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { cluster } from '@brokkr/testing/kube.ts'
import { nodes } from '@brokkr/testing/nodes.ts'
import { emptyDatabase } from '@brokkr/testing/postgres.ts'
import { askServers } from '@brokkr/testing/servers-client.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { startProcessor } from '../processor/test-parts/real-flow.ts'
import { annotation, apiVersion, deploymentName, secretName } from './names.ts'
import { type RolledOut, rollOut } from './roll-out.ts'
import { dataFlowDefinition } from './test-parts/definition.ts'

const limits = { limitMs: 120_000 }
const timeoutMs = 600_000
const image = 'brokkr:test'

/** A flow in a namespace of its own, and a label that decides whether its pods find a node. */
async function setup(spec: (label: string) => object) {
  const plane = await cluster()
  const [node] = await nodes(1)
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  await define(kube)
  const namespace = await plane.namespace('flows')
  const label = `test-${randomBytes(4).toString('hex')}`
  const ref = { apiVersion, kind: 'DataFlow', namespace, name: 'orders' }
  await kube.create({ apiVersion, kind: 'DataFlow', metadata: { name: 'orders', namespace }, spec: { ...spec(label) } })
  await kube.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'dataflow-orders-processor', namespace } })
  const takesPods = (isSo: boolean) =>
    kube.patch(
      { apiVersion: 'v1', kind: 'Node', name: node! },
      { type: 'merge', body: { metadata: { labels: { [label]: isSo ? 'yes' : null } } } },
    )
  const roll = async (): Promise<RolledOut> => {
    const object = await kube.get(ref)
    return rollOut({ kube, image }, object, flowOf(object), 1)
  }
  return { kube, namespace, ref, takesPods, roll }
}

async function define(kube: Kube): Promise<void> {
  await kube.create(dataFlowDefinition).catch((error: unknown) => {
    if (!hasReason(error, 'AlreadyExists')) throw error
  })
  const isServed = () => kube.list({ apiVersion, kind: 'DataFlow' }).then(() => true)
  await waitFor('the kind to be served', isServed, limits)
}

function flowOf(object: KubeObject): Flow {
  const { flow, problems } = validate(object, re2)
  if (flow === undefined) throw new Error(JSON.stringify(problems))
  return flow
}

test(
  '[D75] a reset by annotation, and one by the flag of the spec, reads from the start once; the flag goes once the new pods are ready',
  async () => {
    const database = await emptyDatabase()
    const client = await database.connect()
    await client.query(`create table events (id int primary key, updated_at timestamptz default now());
      create table target (at serial, id int, updated_at timestamptz)`)
    await client.query('insert into events (id) values (1), (2)')
    const table = (name: string, more: object = {}) => ({
      type: 'postgresql',
      config: { connectionString: database.url, table: name, ...more },
    })
    const { kube, namespace, ref, takesPods, roll } = await setup((label) => ({
      source: table('events', { overlapSeconds: 0 }),
      sink: table('target', { onConflict: 'error' }),
      nodeSelector: { [label]: 'yes' },
    }))
    const folder = await askServers('loan.folder', { kind: 'plain' })
    /** What a pod does with the spec that it is given now; the ids it has written in all. */
    const run = async (): Promise<number[]> => {
      const secret = await kube.get({ apiVersion: 'v1', kind: 'Secret', namespace, name: secretName('orders') })
      const given = JSON.parse(Buffer.from(textAt(secret, 'data', 'spec.json')!, 'base64').toString()) as {
        spec: Record<string, unknown>
        oneShots: OneShots
      }
      const args = ['--bounded', '--checkpoint-file', `${folder}/checkpoint.json`]
      const processor = await startProcessor(given.spec, { folder, oneShots: given.oneShots, args, name: 'orders' })
      expect([(await processor.exited).code, processor.logTail(5)]).toEqual([0, expect.anything()])
      return (await client.query<{ id: number }>('select id from target order by at')).rows.map(({ id }) => id)
    }
    const rolled = async () => {
      const isSo = async () => (await roll()).isReady
      await waitFor('the new pods', isSo, limits)
    }
    const isFlagged = async (): Promise<boolean> => {
      const { metadata, spec } = await kube.get(ref)
      return metadata.annotations?.[annotation.resetCheckpoint] !== undefined || spec?.['checkpointReset'] !== undefined
    }
    const generation = async () =>
      (await kube.get({ apiVersion: 'apps/v1', kind: 'Deployment', namespace, name: deploymentName('orders') })).metadata.generation

    await takesPods(true)
    await rolled()
    expect(await run()).toEqual([1, 2])
    expect(await run()).toEqual([1, 2])

    const orders = [{ metadata: { annotations: { [annotation.resetCheckpoint]: 'true' } } }, { spec: { checkpointReset: true } }]
    let read = [1, 2]
    for (const body of orders) {
      // The old pod is ready; the new one finds no node.
      await takesPods(false)
      await kube.patch(ref, { type: 'merge', body })
      expect(await roll()).toMatchObject({ isReady: false, hasCleared: false })
      const before = await generation()
      expect(await run()).toEqual((read = [...read, 1, 2]))
      expect(await roll()).toMatchObject({ isReady: false, hasCleared: false })
      expect(await isFlagged()).toBe(true)
      // A pod that starts anew under the same order does not begin again.
      expect(await run()).toEqual(read)

      await takesPods(true)
      await rolled()
      await waitFor('the flag to go', async () => (await roll()) && !(await isFlagged()), limits)
      // Without its flag the flow is what it was: no pod rolls for it, and nothing is read again.
      expect(await roll()).toMatchObject({ isReady: true, hasCleared: false })
      expect(await generation()).toBe(before)
      expect(await run()).toEqual(read)
    }
    await takesPods(false)
    await client.end()
  },
  timeoutMs,
)
