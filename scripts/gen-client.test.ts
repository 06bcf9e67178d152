import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { buildRoutes, routesFile } from './gen-client.ts'

test('the routes of the client match the endpoint table; `npm run generate` rewrites them', () => {
  expect(readFileSync(routesFile, 'utf8')).toBe(buildRoutes())
})
