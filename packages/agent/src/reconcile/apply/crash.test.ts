import { randomUUID } from 'node:crypto'
import { decodeApplySet } from '@brokkr/kube'
import { forEveryAwait } from '@brokkr/testing/crash/crash.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { beforeAll, expect, test } from 'vitest'
import type { CrashInput } from '../../test-parts/crash-agent.ts'
import { CONFIG_MAP, configMap, type ReconcileWorld, reconcileWorld, revision } from '../../test-parts/reconcile-world.ts'
import { removeStack } from '../prune/remove-stack.ts'
import { reconcileStack } from '../reconcile-stack.ts'

const program = new URL('../../test-parts/crash-agent.ts', import.meta.url)
const signal = new AbortController().signal
let world: ReconcileWorld
beforeAll(async () => {
  world = await reconcileWorld(await cluster({ controllers: false }))
})

/** As many again of what changes and comes, and a few that go (more would need an approval): the more requests, the more awaits. */
const more = Array.from({ length: size('A31.more') }, (_, n) => n)

/** One stack at its first revision, with what must not be touched beside it. */
interface Stand extends CrashInput {
  readonly namespace: string
  readonly second: ReturnType<typeof revision>
  readonly strangers: readonly (string | undefined)[]
}
const find = (namespace: string, name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const isStranger = (name: string) => name === 'copy' || name === 'foreign' || name === 'remade' || name === 'kube-root-ca.crt'
const names = async (namespace: string) =>
  (await world.kube.list(CONFIG_MAP, { namespace })).items.map(({ metadata }) => metadata.name).filter((name) => !isStranger(name))
const uids = (namespace: string) =>
  Promise.all(['copy', 'foreign', 'remade'].map(async (name) => (await find(namespace, name))?.metadata.uid))

async function stand(what: 'apply' | 'remove'): Promise<Stand> {
  const namespace = await world.at.namespace()
  const stackId = randomUUID()
  const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
  const first = revision(
    stackId,
    1,
    [
      'same',
      'changes',
      'goes',
      'remade',
      'b',
      'c',
      'd',
      ...more.flatMap((n) => (n % 4 === 0 ? [`changes-${n}`, `goes-${n}`] : [`changes-${n}`])),
    ].map((name) => map(name, { x: '1' })),
  )
  const ignoring = { annotations: { 'brokkr.io/ignore-fields': '/data/x' } }
  const kept = [
    map('same', { x: '1' }),
    map('changes', { x: '2' }),
    map('b', { x: '9' }, ignoring),
    map('c', { x: '1' }),
    map('d', { x: '1' }),
    ...more.flatMap((n) => [map(`changes-${n}`, { x: '2' }), map(`comes-${n}`)]),
  ]
  const second = revision(stackId, 2, [...kept, map('comes', { x: '1' }), map('comes-too')])
  expect((await reconcileStack(world.restarted(), first, signal)).phase).toBe('applied')
  const { labels = {}, annotations = {} } = (await find(namespace, 'goes'))?.metadata ?? {}
  await world.kube.create(map('copy', {}, { labels, annotations }))
  await world.kube.create(map('foreign'))
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'remade' })
  await world.kube.create(map('remade', {}, { labels, annotations }))
  const { deps, own, agentId, recorder } = world
  return {
    kubeconfigPath: recorder.kubeconfigPath,
    own,
    agentId,
    hashKey: deps.hashKey.export().toString('base64'),
    stackId,
    revision: what === 'remove' ? null : { rev: 2, objectId: second.object.id, text: second.text },
    settings: deps.settings,
    namespace,
    second,
    strangers: await uids(namespace),
  }
}

/** Nothing was deleted that was not the stack's, and nobody's object was touched. */
async function unharmed({ namespace, strangers }: Stand): Promise<void> {
  expect(await uids(namespace)).toEqual(strangers)
  const targets = world.recorder.deletes().map((path) => path.split('/').at(-1) ?? '')
  expect(targets.filter((name) => ['copy', 'foreign', 'remade'].includes(name))).toEqual([])
}

async function converges(at: Stand): Promise<void> {
  const deps = world.restarted()
  expect(await reconcileStack(deps, at.second, signal)).toMatchObject({ phase: 'applied', held: null })
  const others = more.flatMap((n) => [`changes-${n}`, `comes-${n}`])
  const wanted = ['b', 'c', 'changes', 'comes', 'comes-too', 'd', 'same', ...others].toSorted()
  expect(await names(at.namespace)).toEqual(wanted)
  expect((await find(at.namespace, 'changes'))?.data).toEqual({ x: '2' })
  expect((await find(at.namespace, 'b'))?.data).toEqual({ x: '1' })
  const parent = await world.kube.get({ apiVersion: 'v1', kind: 'Secret', namespace: world.own, name: `brokkr-stack-${at.stackId}` })
  const { members } = decodeApplySet(parent, { tooling: 'brokkr/v1' })
  expect(members.map(({ name }) => name).toSorted()).toEqual(wanted)
  for (const { name, uid } of members) expect((await find(at.namespace, name))?.metadata.uid).toBe(uid)
}

async function goes(at: Stand): Promise<void> {
  expect((await removeStack(world.restarted(), at.stackId, signal)).phase).toBe('removed')
  expect(await names(at.namespace)).toEqual([])
  expect(await world.deps.parents.owned(signal)).not.toContain(at.stackId)
}

test('[A31] an agent killed at any await of apply and prune converges without leaks', async () => {
  const seeded = size('A31.seededAwaits')
  const share = (part: number) => (seeded === null ? null : Math.ceil(seeded * part))
  const applies = forEveryAwait<Stand>(
    program,
    () => stand('apply'),
    async (n, outcome, at) => {
      expect(outcome.failed).toBeUndefined()
      await unharmed(at)
      // The next thing that is wanted is the same revision, or that everything goes: neither may leave something behind.
      if (n % 2 === 0) await converges(at)
      await goes(at)
      await unharmed(at)
    },
    { pick: share(0.7), seed: 31 },
  )
  const removals = forEveryAwait<Stand>(
    program,
    () => stand('remove'),
    async (_n, outcome, at) => {
      expect(outcome.failed).toBeUndefined()
      await goes(at)
      await unharmed(at)
    },
    { pick: share(0.3), seed: 31 },
  )
  // Side by side: one lane mostly waits for its child to start.
  const [applied, removed] = await Promise.all([applies, removals])
  const found = applied.points.length + removed.points.length
  const kills = applied.kills + removed.kills
  process.stdout.write(
    `A31: ${found} awaits found (${applied.points.length} of an apply, ${removed.points.length} of a removal), killed at ${kills}\n`,
  )
  expect(applied.points.length).toBeGreaterThanOrEqual(30)
  expect(removed.points.length).toBeGreaterThanOrEqual(12)
  expect(kills).toBeGreaterThanOrEqual(seeded === null ? Math.max(found, 150) : Math.min(found, 40))
}, 3_600_000)
