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

test('the new form: everything at once, a group whose server is down stands apart', () => {
  const served = readAggregated(core, groups)
  expect(served?.resources.map(({ kind }) => kind)).toEqual(['Pod', 'Deployment'])
  expect(served?.resources[0]).toEqual(pods)
  expect([...(served?.failedGroups ?? [])]).toEqual(['broken.example.com'])
  expect(readAggregated({ kind: 'APIVersions' }, { kind: 'APIGroupList' })).toBeUndefined()
})

test('the old form: one document per version, preferred first, one that fails costs only its group', async () => {
  const list = {
    kind: 'APIGroupList',
    groups: [
      { name: 'g.example.com', versions: [{ version: 'v1' }, { version: 'v2' }], preferredVersion: { version: 'v2' } },
      { name: 'broken.example.com', versions: [{ version: 'v1' }] },
    ],
  }
  const asked: string[] = []
  const served = await readLegacy({ kind: 'APIVersions', versions: ['v1'] }, list, async (path) => {
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
  })
  expect(asked).toEqual(['/api/v1', '/apis/g.example.com/v2', '/apis/g.example.com/v1', '/apis/broken.example.com/v1'])
  expect(served.resources.map(({ kind, version }) => `${kind} ${version}`)).toEqual(['Pod v1', 'Thing v2', 'Thing v1'])
  expect(served.resources[0]).toEqual(pods)
  expect([...served.failedGroups]).toEqual(['broken.example.com'])
})

test.each([
  [undefined, undefined],
  [{ kind: 'APIGroupDiscoveryList' }, { kind: 'APIGroupDiscoveryList', items: ['x', null, { versions: 'y' }] }],
])('nonsense reads as nothing served', (one, two) => {
  expect(readAggregated(one, two)?.resources ?? []).toEqual([])
})
