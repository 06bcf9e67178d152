import { listSettings } from '@brokkr/runtime/config-table.ts'
import { expect, test } from 'vitest'
import { agentTable } from './config.ts'
import { changesWhatIsRight } from './pace-settings.ts'

test('of the hot settings these decide what may stand in the cluster, or whether we may write: a change of one needs a look at every stack', () => {
  const hot = listSettings(agentTable).flatMap(({ path, setting }) => (setting.hot ? [path] : []))
  expect(hot.filter((path) => changesWhatIsRight(new Set([path]))).toSorted()).toEqual([
    'agent.allowed_namespaces',
    'agent.denied_kinds',
    'agent.deployment_health_enabled',
    'agent.drift_fight_seconds',
    'agent.dry_run',
    'agent.field_validation',
    'agent.frozen_after_seconds',
    'agent.protected_namespaces',
    'agent.prune_guard_count',
    'agent.prune_guard_percent',
  ])
})

test.each([
  [['agent.resync_interval'], false],
  [['agent.resync_interval', 'log.level'], false],
  [['agent.resync_interval', 'agent.denied_kinds'], true],
  [['agent.not_known_here'], true],
] as const)('%j: %s', (paths, expected) => {
  expect(changesWhatIsRight(new Set(paths))).toBe(expected)
})
