import { expect, test } from 'vitest'
import { readAggregated, readLegacy } from './discovery-document.ts'

const core = {
  kind: 'APIGroupDiscoveryList',
  items: [
    {
      metadata: {},
      versions: [
        {
          version: 'v1',
          freshness: 'Current',
          resources: [
            {
              resource: 'pods',
              responseKind: { kind: 'Pod' },
              scope: 'Namespaced',
              verbs: ['get'],
              subresources: [{ subresource: 'log' }],
            },
          ],
        },
      ],
    },
  ],
}
const groups = {
  kind: 'APIGroupDiscoveryList',
  items: [
    {
      metadata: { name: 'apps' },
      versions: [
        {
          version: 'v1',
          freshness: 'Current',
          resources: [{ resource: 'deployments', responseKind: { kind: 'Deployment' }, scope: 'Namespaced', verbs: [] }],
        },
      ],
    },
    { metadata: { name: 'broken.example.com' }, versions: [{ version: 'v1', freshness: 'Stale' }] },
  ],
}
const pods = { group: '', version: 'v1', kind: 'Pod', plural: 'pods', namespaced: true, verbs: ['get'], subresources: ['log'] }

test('the aggregated form lists all resources and marks a group whose server is down', () => {
  expect(readAggregated(core)?.resources).toEqual([pods])
  const served = readAggregated(groups)
  expect(served?.resources.map(({ kind }) => kind)).toEqual(['Deployment'])
  expect([...(served?.failedGroups ?? [])]).toEqual(['broken.example.com'])
  expect([readAggregated({ kind: 'APIVersions' }), readAggregated({ kind: 'APIGroupList' })]).toEqual([undefined, undefined])
})

test('the old form lists the preferred version first and isolates a failing group', async () => {
  const list = {
    kind: 'APIGroupList',
    groups: [
      { name: 'g.example.com', versions: [{ version: 'v1' }, { version: 'v2' }], preferredVersion: { version: 'v2' } },
      { name: 'broken.example.com', versions: [{ version: 'v1' }] },
    ],
  }
  const asked: string[] = []
  const fetch = async (path: string) => {
    asked.push(path)
    if (path === '/api/v1')
      return {
        kind: 'APIResourceList',
        resources: [
          { name: 'pods', kind: 'Pod', namespaced: true, verbs: ['get'] },
          { name: 'pods/log', kind: 'Pod', namespaced: true, verbs: ['get'] },
        ],
      }
    if (path.includes('broken')) return undefined
    return { kind: 'APIResourceList', resources: [{ name: 'things', kind: 'Thing', namespaced: false, verbs: [] }] }
  }
  expect((await readLegacy({ kind: 'APIVersions', versions: ['v1'] }, fetch)).resources).toEqual([pods])
  const served = await readLegacy(list, fetch)
  expect(asked).toEqual(['/api/v1', '/apis/g.example.com/v2', '/apis/g.example.com/v1', '/apis/broken.example.com/v1'])
  expect(served.resources.map(({ kind, version }) => `${kind} ${version}`)).toEqual(['Thing v2', 'Thing v1'])
  expect([...served.failedGroups]).toEqual(['broken.example.com'])
})

test.each([undefined, { kind: 'APIGroupDiscoveryList' }, { kind: 'APIGroupDiscoveryList', items: ['x', null, { versions: 'y' }] }])(
  'an invalid document contains no resources',
  (document) => {
    expect(readAggregated(document)?.resources ?? []).toEqual([])
  },
)
