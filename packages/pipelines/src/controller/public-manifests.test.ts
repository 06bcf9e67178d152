import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { notificationStrategy } from '../strategies/notification.ts'
import { marked, openForgeSite, openPullRequests } from '../test-parts/forge-world.ts'
import { publicManifests } from '../test-parts/public-manifests.ts'
import { closeServer, openManagement, openPipeline, type Server, setRelease, startTestController } from '../test-parts/world.ts'

let server: Server
let pullRequests: Awaited<ReturnType<typeof openPullRequests>>
let controller: ReturnType<typeof startTestController>

beforeAll(async () => {
  server = await openManagement()
  pullRequests = await openPullRequests()
  const strategies = [pullRequests.strategy, notificationStrategy({ kube: server.kube, clock, events: null })]
  controller = startTestController(server, { strategies })
}, 240_000)

afterAll(async () => {
  await controller?.stop()
  await pullRequests?.close()
  await closeServer(server)
})

interface Manifest {
  readonly metadata: { readonly name: string }
  readonly spec: { readonly environments: never[]; readonly promotion: { strategy: Record<string, object> } }
}
const read = (name: keyof typeof publicManifests): Manifest => parse(publicManifests[name]) as Manifest

test.each(Object.keys(publicManifests) as (keyof typeof publicManifests)[])('a public manifest (%s) is stored whole', async (name) => {
  const namespace = await server.plane.namespace()
  const object = read(name)
  const stored = await server.kube.create({ ...object, metadata: { ...object.metadata, namespace } } as never, {
    fieldValidation: 'Strict',
  })
  expect(stored['spec']).toEqual(object.spec)
  await server.kube.delete({ apiVersion: 'pipelines.weave.works/v1alpha1', kind: 'Pipeline', namespace, name: object.metadata.name })
})

/** The manifest with the namespaces of this test, and what else `change` gives. */
async function openStages(manifest: keyof typeof publicManifests, change: (spec: Manifest['spec']) => object = () => ({})) {
  const object = read(manifest)
  const namespaces = { dev: await server.plane.namespace('dev'), prod: await server.plane.namespace('prod') }
  const environments = (['dev', 'prod'] as const).map((name) => ({ name, targets: [{ namespace: namespaces[name] }] }))
  const pipeline = await openPipeline(server, { ...object.spec, environments, ...change(object.spec) }, { name: object.metadata.name })
  await setRelease(server.kube, namespaces.dev, '6.0.1')
  await setRelease(server.kube, namespaces.prod, '6.0.0')
  return { ...pipeline, namespaces }
}

test('a public manifest with a notification promotes', async () => {
  const stages = await openStages('notification')
  await stages.create()
  await stages.waitForPhases('1 prod 6.0.1 Applied')
  await setRelease(server.kube, stages.namespaces.prod, '6.0.1')
  await stages.waitForPhases('1 prod 6.0.1 Succeeded')
  expect((await stages.events()).filter(({ reason }) => reason === 'Promote')).toHaveLength(1)
})

test('a public manifest with a pull request promotes, given a repository that exists', async () => {
  const site = await openForgeSite()
  try {
    const stages = await openStages('pull request', ({ promotion }) => ({
      promotion: { strategy: { 'pull-request': { ...promotion.strategy['pull-request'], url: site.pullRequest.url } } },
    }))
    const file = marked('6.0.0', `${stages.namespace}:${stages.name}:prod`)
    await site.repository.commit({ 'release.yaml': file }, { branch: 'main' })
    const data = Object.fromEntries(Object.entries(site.secret).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
    await server.kube.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: stages.namespace, name: 'promotion-credentials' },
      data,
    })
    await stages.create()
    await stages.waitForPhases('1 prod 6.0.1 Applied')
    expect(site.forge.pulls).toMatchObject([{ base: 'main', state: 'open' }])
    await stages.delete()
  } finally {
    await site.close()
  }
})
