import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { buildConfigurationPage, configurationPage, programs } from './gen-config.ts'

test('the configuration page matches the settings tables; `npm run generate` rewrites it', () => {
  expect(readFileSync(configurationPage, 'utf8')).toBe(buildConfigurationPage())
})

test('every setting has a description, and every number a unit', () => {
  const incomplete = programs.flatMap(({ title, settings }) =>
    settings
      .filter(({ missing }) => missing.length > 0)
      .map(({ path, env, missing }) => `${title} ${path ?? env[0]}: ${missing.join(', ')}`),
  )
  expect(incomplete).toEqual([])
})
