import { cluster } from '@brokkr/testing/servers/kube.ts'
import { expect, test } from 'vitest'
import { openClosing, openTestKube } from '../test-parts/open-test-kube.ts'
import { json, strangeServer } from '../test-parts/strange-server.ts'
import { builtInResource } from './built-in-kinds.ts'
import { apiVersionOf } from './object.ts'

test('the API server serves every built-in kind under its path', async () => {
  const kube = await openTestKube(await cluster({ controllers: false }))
  const served = await kube.discovery.all()
  const known = served.flatMap((resource) => {
    const mine = builtInResource({ apiVersion: apiVersionOf(resource.group, resource.version), kind: resource.kind })
    return mine ? [{ mine, resource }] : []
  })
  expect(known.length).toBeGreaterThanOrEqual(30)
  for (const { mine, resource } of known) expect(resource).toMatchObject(mine)
})

test.each(['Nothing', 'configmap', 'ConfigMa', 'Endpoints:endpoints', '', 'constructor'])('builtInResource does not know %j', (kind) => {
  expect(builtInResource({ apiVersion: 'v1', kind })).toBeUndefined()
  expect(builtInResource({ apiVersion: 'constructor', kind })).toBeUndefined()
})

test('a built-in kind that is not served is looked up by discovery', async () => {
  const asked: (string | undefined)[] = []
  const { config } = await strangeServer((request, response) => {
    asked.push(request.url?.split('?')[0])
    json(response, 404, { kind: 'Status', code: 404, reason: 'NotFound', message: 'the server could not find the requested resource' })
  })
  const kube = openClosing(config)
  const scan = kube.scan({ apiVersion: 'apps/v1', kind: 'Deployment' }, {}, { take: () => undefined, anew: () => undefined })
  await expect(scan).rejects.toMatchObject({ reason: 'UnknownKind' })
  expect(asked).toEqual(['/apis/apps/v1/deployments'])
})
