import { join } from 'node:path'
import { expect, test } from 'vitest'
import { rbacManifests, rbacText } from './rbac.ts'

test('the manifest of rights is the one that the table gives', async () => {
  await expect(rbacText()).toMatchFileSnapshot(join(import.meta.dirname, '../manifests/rbac.yaml'))
})

test('no role of a user may write the status of a promotion', () => {
  const users = rbacManifests().filter(({ metadata }) => /-(viewer|editor|approver|promoter)$/.test(metadata.name))
  expect(users).toHaveLength(4)
  expect(JSON.stringify(users)).not.toContain('promotions/status')
})
