import { expect, test } from 'vitest'
import { simulate } from './test-parts/simulation.ts'

const pull = { type: 'github', url: 'https://example.com/a/b', baseBranch: 'main', secretRef: { name: 's' } } as const

test('a revision passes environment after environment, each after the one before it', () => {
  const world = simulate()
  expect(world.settle().pending).toBeNull()
  world.set('dev', 'b')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Applied'])
  world.set('staging', 'b')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Applied'])
  world.set('prod', 'b')
  expect(world.settle().pending).toBeNull()
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Succeeded'])
})

test('a return to an earlier revision is a new run with a record of its own', () => {
  const world = simulate()
  for (const revision of ['a', 'b', 'a']) {
    for (const name of ['dev', 'staging', 'prod']) {
      world.set(name, revision)
      world.settle()
    }
  }
  expect(world.run?.number).toBe(3)
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Succeeded', '3 staging a Succeeded', '3 prod a Succeeded'])
})

test.each([
  ['targets on different revisions', ['a', 'b'], 'its targets are on different revisions'],
  ['a target that is not ready', ['a', 'a!'], '1 of 2 targets are not ready'],
  ['an absent target', ['a', null], '1 of 2 targets are not ready'],
])('a first environment with %s starts no run', (_what, seen, message) => {
  const world = simulate({ environments: { dev: { targets: [{ namespace: 'x' }, { namespace: 'y' }] } } })
  world.set('dev', ...(seen as string[]))
  const plan = world.settle()
  expect([world.run, plan.pending?.reason]).toEqual([undefined, 'EnvironmentNotReady'])
  expect(plan.pending?.message).toContain(message)
})

test('a later environment is promoted although the first is busy with the next revision', () => {
  const world = simulate()
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('staging', 'b')
  world.set('dev', 'c!')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Applied'])
})

test('a newer run supersedes what is open, one record per pass', () => {
  const world = simulate()
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('dev', 'c')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Superseded', '3 staging c Applied'])
  expect(world.promotions[0]?.status.supersededBy).toBe(world.promotions[1]?.name)
})

test('under Queue a new run waits until the current one has ended', () => {
  const world = simulate({ policy: { supersede: 'Queue' } })
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('dev', 'c')
  world.settle()
  expect([world.run?.revision, world.phases()]).toEqual(['b', ['2 staging b Applied']])
  world.set('staging', 'b')
  world.settle()
  expect([world.run?.revision, world.phases()]).toEqual(['b', ['2 staging b Succeeded', '2 prod b Applied']])
  world.set('prod', 'b')
  world.settle()
  expect(world.run?.revision).toBe('c')
})

test.each([
  ['another revision ends the run', 'hotfix', 'Diverged', 'c', '2 prod b Superseded'],
  ['an absent target ends the run', null, 'Diverged', 'c', '2 prod b Superseded'],
  ['an unready target keeps the next run waiting', 'b!', 'EnvironmentNotReady', 'b', '2 prod b AwaitingApproval'],
  ['an unreachable target keeps the next run waiting', 'unreachable', 'TargetNotReadable', 'b', '2 prod b AwaitingApproval'],
])('under Queue, behind an open promotion, an environment with %s', (_what, seen, reason, revision, phase) => {
  const world = simulate({ policy: { supersede: 'Queue' }, environments: { prod: { approval: { minApprovals: 1, deadline: '24h' } } } })
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('staging', 'b')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b AwaitingApproval'])
  world.set('staging', seen)
  expect(world.settle().pending?.reason).toBe(reason)
  world.set('dev', 'c')
  world.settle()
  expect([world.run?.revision, world.phases()[1]]).toEqual([revision, phase])
})

test('under Queue an effect behind an environment that diverged keeps the next run waiting', () => {
  const world = simulate({ policy: { supersede: 'Queue' } })
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('staging', 'b')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Applied'])
  world.set('staging', 'hotfix')
  world.set('dev', 'c')
  world.settle()
  expect(world.run?.revision).toBe('b')
  world.set('prod', 'b')
  world.settle()
  expect([world.run?.revision, world.phases()[1]]).toEqual(['c', '2 prod b Succeeded'])
})

test('a held pipeline starts no run until the hold is removed', () => {
  const world = simulate()
  world.settle()
  world.annotations = { 'pipelines.brokkr.io/hold': 'true' }
  world.set('dev', 'b')
  expect(world.settle().pending?.reason).toBe('Held')
  world.annotations = {}
  world.settle()
  expect(world.run?.revision).toBe('b')
})

test('a rollback run reaches its scope without a comparison with the environment before', () => {
  const world = simulate()
  world.set('dev', 'b')
  world.set('staging', 'b')
  world.set('prod', 'b')
  world.settle()
  world.annotations = { 'pipelines.brokkr.io/hold': 'true' }
  world.run = { number: 2, revision: 'a', startedAt: '', cause: { kind: 'rollback', actor: 'user:x' }, scope: ['prod'] }
  expect(world.settle().pending?.reason).toBe('Held')
  expect(world.phases()).toEqual(['2 prod a Applied'])
})

test('a hotfix stays during its run; the next run overwrites it', () => {
  const world = simulate()
  world.settle()
  for (const name of ['dev', 'staging', 'prod']) {
    world.set(name, 'b')
    world.settle()
  }
  world.set('prod', 'hotfix')
  expect(world.settle().pending?.reason).toBe('Diverged')
  expect(world.promotions).toHaveLength(2)
  world.set('dev', 'c')
  world.settle()
  world.set('staging', 'c')
  world.settle()
  expect(world.phases().at(-1)).toBe('3 prod c Applied')
})

test('a hotfix under Protect asks for an approval in the next run', () => {
  const world = simulate({ policy: { hotfix: 'Protect' } })
  world.settle()
  for (const name of ['dev', 'staging', 'prod']) {
    world.set(name, 'b')
    world.settle()
  }
  world.set('prod', 'hotfix')
  world.set('dev', 'c')
  world.settle()
  world.set('staging', 'c')
  expect(world.settle().pending?.reason).toBe('AwaitingApproval')
  expect(world.phases().at(-1)).toBe('3 prod c AwaitingApproval')
})

test.each([
  ['no promotion', { promotion: undefined as never }, null, 0],
  ['no strategy', { promotion: { strategy: {} } }, 'NoStrategy', 0],
  ['a suspended pipeline', { suspend: true }, 'Suspended', 0],
  ['an environment without targets', { environments: { staging: { targets: [] } } }, null, 1],
  [
    'a promotion at the environment alone',
    { promotion: undefined as never, environments: { staging: { promotion: { strategy: { notification: {} } } } } },
    null,
    1,
  ],
  ['an approval', { promotion: { manual: true, strategy: { notification: {} } } }, 'AwaitingApproval', 1],
] as const)('with %s the run is decided', (_what, spec, pending, records) => {
  const world = simulate(spec)
  world.set('dev', 'b')
  const plan = world.settle()
  expect([plan.pending?.reason ?? null, world.promotions.length]).toEqual([pending, records])
})

test('an unreachable target makes no record; an absent application does', () => {
  const world = simulate()
  world.set('staging', 'unreachable')
  world.set('dev', 'b')
  expect(world.settle().pending?.reason).toBe('TargetNotReadable')
  expect(world.promotions).toEqual([])
  world.set('staging', null)
  world.settle()
  expect(world.phases()).toEqual(['1 staging b Applied'])
})

test('an environment that is still changing to the revision is not promoted again', () => {
  const world = simulate({ environments: { staging: { targets: [{ namespace: 'x' }, { namespace: 'y' }] } } })
  world.set('staging', 'a', 'a')
  world.settle()
  world.set('dev', 'b')
  world.set('staging', 'b', 'a')
  world.changedAtMs = world.nowMs
  const plan = world.settle()
  expect([plan.pending?.reason, plan.wakeAtMs, world.promotions.length]).toEqual(['EnvironmentNotReady', world.nowMs + 300_000, 0])
  world.nowMs += 300_000
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Applied'])
})

test('a soak restarts when readiness is lost', () => {
  const world = simulate({ policy: { soak: '5s' } })
  world.set('dev', 'b')
  world.settle()
  world.set('staging', 'b')
  const first = world.settle()
  expect([world.phases(), first.wakeAtMs]).toEqual([['1 staging b Verifying'], world.nowMs + 5000])
  world.nowMs += 3000
  world.set('staging', 'b!')
  world.settle()
  world.set('staging', 'b')
  world.settle()
  world.nowMs += 4000
  world.settle()
  expect(world.phases()).toEqual(['1 staging b Verifying'])
  world.nowMs += 1000
  world.settle()
  expect(world.phases()[0]).toBe('1 staging b Succeeded')
})

test('a Blocked promotion whose strategy was changed is replaced by the next series', () => {
  const world = simulate({ promotion: { strategy: { 'pull-request': pull } } })
  world.set('dev', 'b')
  world.step()
  world.step()
  const [record] = world.promotions
  world.update(record!.name, (status) => ({
    ...status,
    phase: 'Blocked',
    phaseSince: new Date(world.nowMs).toISOString(),
    reason: 'MarkerNotFound',
  }))
  expect(world.settle().pending?.reason).toBe('MarkerNotFound')
  world.spec.promotion = { strategy: { notification: {} } }
  world.settle()
  expect(world.promotions.map(({ spec, status }) => [spec.series, status.phase])).toEqual([
    [1, 'Superseded'],
    [2, 'Applied'],
  ])
})

test('run numbers go on above the records when the status was lost', () => {
  const world = simulate()
  world.set('dev', 'b')
  world.settle()
  world.run = undefined
  world.set('dev', 'c')
  world.settle()
  expect(world.run).toMatchObject({ number: 2, revision: 'c' })
  expect(world.phases()).toEqual(['1 staging b Superseded', '2 staging c Applied'])
})

test('terminal records beyond the history are removed after 14 days, never those of the run', () => {
  const world = simulate({ policy: { history: 1 } })
  for (const revision of ['b', 'c', 'd']) {
    world.set('dev', revision)
    world.settle()
  }
  expect(world.promotions).toHaveLength(3)
  world.nowMs += 15 * 86_400_000
  world.settle()
  expect(world.phases()).toEqual(['2 staging c Superseded', '3 staging d Applied'])
})

test('an open promotion goes on although an environment before it has left the revision', () => {
  const world = simulate()
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('staging', 'b')
  world.settle()
  world.set('staging', 'h')
  world.set('prod', 'b')
  expect(world.settle().pending?.reason).toBe('Diverged')
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Succeeded'])
})

test('a queued promotion does not begin while the environment before it is not settled', () => {
  const windows = [{ name: 'freeze', kind: 'Deny', start: '2025-12-31T23:00:00', duration: '2h' }]
  const world = simulate({ environments: { prod: { windows } } })
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.set('staging', 'b')
  world.settle()
  expect(world.phases()).toEqual(['2 staging b Succeeded', '2 prod b Queued'])
  world.set('staging', 'b!')
  world.nowMs += 7_200_000
  world.settle()
  expect(world.phases().at(-1)).toBe('2 prod b Queued')
  world.set('staging', 'b')
  world.settle()
  expect(world.phases().at(-1)).toBe('2 prod b Applied')
})

test('the promotion of an environment that was removed is aborted', () => {
  const world = simulate()
  world.settle()
  world.set('dev', 'b')
  world.settle()
  world.spec.environments = world.spec.environments.filter(({ name }) => name !== 'staging')
  world.settle()
  expect(world.phases()[0]).toBe('2 staging b Aborted')
})

test('a run of a user is replaced by the next change of the first environment, not by its state', () => {
  const world = simulate()
  world.settle()
  world.run = {
    number: 2,
    revision: 'x',
    startedAt: '2026-01-01T00:00:00Z',
    cause: { kind: 'manual', actor: 'user:a' },
    firstRevision: 'a',
  }
  world.settle()
  expect([world.run.number, world.phases()]).toEqual([2, ['2 staging x Applied']])
  world.set('dev', 'b')
  world.settle()
  expect([world.run.number, world.run.revision]).toEqual([3, 'b'])
})

test('a blocked promotion is shown while its base branch is read, and is read again', () => {
  const world = simulate({ promotion: { strategy: { 'pull-request': pull } } })
  world.settle()
  world.set('dev', 'b')
  world.settle()
  const [promotion] = world.promotions
  const blocked = { phase: 'Blocked', reason: 'MarkerNotFound', message: 'm', phaseSince: '2025-12-31T23:59:00Z' } as const
  world.update(promotion!.name, () => ({ ...blocked, blockedOn: { baseSha: 'a' } }))
  world.effectObservedAtMs = world.nowMs - 30_000
  expect(world.plan()).toMatchObject({
    step: { do: 'advance', advance: { do: 'observe-block' } },
    pending: { reason: 'MarkerNotFound' },
    wakeAtMs: world.nowMs + 30_000,
  })
})
