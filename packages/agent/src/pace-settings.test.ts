import { listSettings } from '@brokkr/runtime/config/settings.ts'
import { expect, test } from 'vitest'
import { agentTable } from './config.ts'
import { affectsDesiredState } from './pace-settings.ts'

test('a change of a hot setting about writes or members reconciles every stack', () => {
  const hot = listSettings(agentTable).flatMap(({ path, setting }) => (setting.hot ? [path] : []))
  expect(hot.filter((path) => affectsDesiredState(new Set([path]))).toSorted()).toEqual([
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
  expect(affectsDesiredState(new Set(paths))).toBe(expected)
})
