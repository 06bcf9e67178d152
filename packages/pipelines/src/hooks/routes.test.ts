import { expect, test } from 'vitest'
import { Refusal } from './answer.ts'
import { findRoute, isLimited } from './routes.ts'

function route(method: string, path: string): unknown {
  try {
    const { name, parts } = findRoute(method, path)
    return [name, ...parts]
  } catch (error) {
    return error instanceof Refusal ? error.answer.status : error
  }
}

test.each([
  ['POST', '/approval/shop/podinfo/prod/team%2Fx', ['approval', 'shop', 'podinfo', 'prod', 'team/x']],
  ['POST', '/approval/shop/podinfo/prod/team/x', 404],
  ['POST', '/approval/shop/podinfo/prod/%', 404],
  ['POST', '/approval/shop/podinfo//1', 404],
  ['POST', '/promotion/shop/podinfo/dev/', 404],
  ['PUT', '/promotion/shop/podinfo/dev', 405],
  ['GET', '/wake', 405],
  ['POST', '/', 404],
  ['POST', '', 404],
  ['GET', '/pipelines', ['pipelines']],
  ['POST', '/pipelines', 405],
  ['GET', '/pipelines/shop/podinfo/explain', ['explain', 'shop', 'podinfo']],
  ['POST', '/pipelines/shop/podinfo/runs', ['runs', 'shop', 'podinfo']],
  ['POST', '/promotions/shop/p-1/decision', ['decision', 'shop', 'p-1']],
  ['GET', '/healthz', ['healthz']],
] as const)('%s %s is matched whole', (method, path, found) => expect(route(method, path)).toEqual(found))

test('only routes that need no identity are limited', () => {
  expect(['/promotion/a/b/c', '/approval/a', '/wake', '/pipelines', '/promotions', '/'].map(isLimited)).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
  ])
})
