import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { buildManifests, manifestFile } from './gen-manifests.ts'

test.each(Object.entries(buildManifests()))('%s is the generated file; `npm run generate` rewrites it', (path, content) => {
  expect(readFileSync(manifestFile(path), 'utf8')).toBe(content)
})
