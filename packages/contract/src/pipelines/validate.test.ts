import { expect, test } from 'vitest'
import { describeProblems, validatePipelineSpec } from './validate.ts'

const spec = (more: Record<string, unknown> = {}) => ({
  appRef: { apiVersion: 'helm.toolkit.fluxcd.io/v2', kind: 'HelmRelease', name: 'podinfo' },
  environments: [{ name: 'dev', targets: [{ namespace: 'dev' }] }],
  ...more,
})
const withWindow = (window: Record<string, unknown>) => ({
  environments: [
    { name: 'dev', targets: [], windows: [{ name: 'w', kind: 'Deny', start: '2026-01-01T00:00:00', duration: '1h', ...window }] },
  ],
})
const problemOf = (more: Record<string, unknown>): string => {
  const checked = validatePipelineSpec(spec(more))
  return checked.ok ? '' : describeProblems(checked.problems)
}
const pull = { type: 'github', url: 'https://example.com/a/b', baseBranch: 'main', secretRef: { name: 's' } }

test('a spec of the public schema is valid', () => {
  const environments = [
    { name: 'dev', targets: [{ namespace: 'dev' }] },
    { name: 'prod', targets: [{ namespace: '', clusterRef: { kind: 'GitopsCluster', name: 'leaf' } }] },
  ]
  expect(validatePipelineSpec(spec({ environments, promotion: { manual: true, strategy: { 'pull-request': pull } } }))).toMatchObject({
    ok: true,
    spec: { environments },
  })
})

test.each([
  [
    'an environment name that is used twice',
    {
      environments: [
        { name: 'a', targets: [] },
        { name: 'a', targets: [] },
      ],
    },
    'environments[1].name',
  ],
  ['no environment', { environments: [] }, 'spec.environments'],
  ['a name that ends with a dot', { environments: [{ name: 'a.', targets: [] }] }, 'environments[0].name'],
  ['two strategies', { promotion: { strategy: { notification: {}, 'pull-request': pull } } }, 'at most one strategy'],
  ['an unknown forge', { promotion: { strategy: { 'pull-request': { ...pull, type: 'subversion' } } } }, 'pull-request.type'],
  ['an unknown time zone', withWindow({ timezone: 'Mars/Olympus' }), 'windows[0].timezone'],
  ['a day that does not exist', withWindow({ start: '2026-02-30T00:00:00' }), 'windows[0].start'],
  ['a rule part outside the subset', withWindow({ rrule: 'FREQ=DAILY;BYHOUR=3' }), 'BYHOUR is not supported'],
  ['an ordinal in a weekly rule', withWindow({ rrule: 'FREQ=WEEKLY;BYDAY=2MO' }), 'ordinal'],
  ['COUNT beside UNTIL', withWindow({ rrule: 'FREQ=DAILY;COUNT=2;UNTIL=20270101' }), 'exclude each other'],
  [
    'an approval deadline that is no duration',
    { environments: [{ name: 'a', targets: [], approval: { deadline: 'soon' } }] },
    'approval.deadline',
  ],
])('a stored spec with %s is refused and the message names it', (_what, more, part) => {
  expect(problemOf(more)).toContain(part)
})
