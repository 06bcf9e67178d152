import type { Phase, PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { describe, expect, test } from 'vitest'
import { chooseRollbackRevision } from './rollback-revision.ts'
import { requireRollbackRevision } from './runs.ts'

/** `detected v3 Applied after v2`: one promotion; runs are numbered in the order of the list. */
function toPromotions(...lines: string[]) {
  return lines.map((line, index): { spec: PromotionSpec; status: PromotionStatus } => {
    const [kind = '', revision = '', phase = '', , ...previousRevisions] = line.split(' ')
    const applied = { type: 'Applied', status: 'True', reason: 'Applied', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' } as const
    return {
      spec: {
        pipelineRef: { name: 'shop', uid: 'u' },
        run: index + 1,
        environment: 'prod',
        revision,
        series: 1,
        key: 'k'.repeat(20),
        ...(previousRevisions.length === 0 ? {} : { previousRevisions }),
        cause: { kind: kind as 'detected' | 'rollback' },
        strategy: { notification: {} },
        supersede: 'Close',
        attempts: 3,
        attemptAge: '24h',
        soak: '0s',
      },
      status: {
        phase: phase as Phase,
        ...(['Applied', 'Verifying', 'Abandoned', 'Superseded', 'Errored'].includes(phase) ? { conditions: [applied] } : {}),
      },
    }
  })
}

const one = 'detected v1 Succeeded after v0'
const two = 'detected v2 Succeeded after v1'
const three = 'detected v3 Succeeded after v2'

describe('the revision of a rollback', () => {
  test.each<[title: string, running: string[], promotions: string[], revision: string | null]>([
    ['is the one before a revision that succeeded', ['v3'], [one, two, three], 'v2'],
    ['is the one before a revision that is applied and unhealthy', ['v3'], [one, two, 'detected v3 Applied after v2'], 'v2'],
    ['is the one before a revision that missed its deadline', ['v3'], [one, two, 'detected v3 Errored after v2'], 'v2'],
    ['is older than the one that still runs while a pull request is open', ['v2'], [one, two, 'detected v3 Applied after v2'], 'v1'],
    ['is the one that the other targets run during a rollout', ['v2', 'v3'], [one, two, 'detected v3 Applied after v2'], 'v2'],
    ['is the last one that succeeded when a hotfix runs', ['hotfix'], [one, two, three], 'v3'],
    ['goes further back at the second rollback', ['v2'], [one, two, three, 'rollback v2 Succeeded after v3'], 'v1'],
    ['goes further back while the first rollback is unhealthy', ['v2'], [one, two, three, 'rollback v2 Applied after v3'], 'v1'],
    ['goes further back during the first rollback', ['v3', 'v2'], [one, two, three, 'rollback v2 Applied after v3'], 'v1'],
    [
      'goes before the oldest promotion at the third rollback',
      ['v1'],
      [one, two, three, 'rollback v2 Succeeded after v3', 'rollback v1 Succeeded after v2'],
      'v0',
    ],
    [
      'is the target of the rollback before a newer revision',
      ['v4'],
      [one, two, three, 'rollback v2 Succeeded after v3', 'detected v4 Succeeded after v2'],
      'v2',
    ],
    [
      'may be one that an older rollback left and that succeeded again',
      ['v4'],
      [one, two, 'rollback v1 Succeeded after v2', 'detected v2 Succeeded after v1', 'detected v4 Succeeded after v2'],
      'v2',
    ],
    ['ignores a rollback that was rejected', ['v3'], [one, two, 'rollback v1 Rejected after v2', three], 'v2'],
    ['ignores a rollback whose pull request was closed', ['v3'], [one, two, 'rollback v1 Abandoned after v2', three], 'v2'],
    ['is what ran before the only promotion', ['v1'], [one], 'v0'],
    ['is what ran before the only promotion, which is unhealthy', ['v1'], ['detected v1 Applied after v0'], 'v0'],
    ['follows the newest promotion where no target is observed', [], [one, two, three], 'v2'],
    ['is none without promotions', ['v1'], [], null],
    ['is none where nothing ran before', ['v1'], ['detected v1 Succeeded'], null],
    ['is none when every earlier one was left', ['v0'], [one, 'rollback v0 Succeeded after v1'], null],
  ])('%s', (_title, running, promotions, revision) => {
    expect(chooseRollbackRevision({ running, promotions: toPromotions(...promotions) })).toBe(revision)
    expect(chooseRollbackRevision({ running, promotions: toPromotions(...promotions).toReversed() })).toBe(revision)
  })

  test('is read from the targets of the environment, and its absence is a clear error', () => {
    const clusterAppRef = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'shop' }
    const metadata = { namespace: 'ns', name: 'shop', uid: 'u', generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' }
    const status = { environments: { prod: { targets: [{ clusterAppRef, ready: false, revision: 'v2' }] } } }
    const pipeline = { apiVersion: 'v1', kind: 'Pipeline', metadata, spec: null, status }
    expect(requireRollbackRevision(pipeline, 'prod', toPromotions(one, two, three))).toBe('v3')
    expect(() => requireRollbackRevision(pipeline, 'prod', [])).toThrow(
      expect.objectContaining({
        message: 'no revision of shop can be chosen',
        where: 'no earlier revision of prod is recorded',
        next: 'name one: --revision REVISION',
      }),
    )
  })
})
