import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { DecisionStore } from '../approvals/decision-store.ts'
import { notificationStrategy } from '../strategies/notification.ts'
import { textsOf } from '../strategies/pull-request-texts.ts'
import { type ForgeStagesOptions, openForgeStages } from '../test-parts/forge-stages.ts'
import { marked, openPullRequests } from '../test-parts/forge-world.ts'
import {
  closeServer,
  fastSettings,
  openManagement,
  openPipeline,
  type Server,
  setRelease,
  startTestController,
} from '../test-parts/world.ts'
import { soleLeadership } from './leadership.ts'

let server: Server
let controller: ReturnType<typeof startTestController>
let strategy: Awaited<ReturnType<typeof openPullRequests>>

/** Effects are read on request: polls would run Git all the time. */
const settings = { effectReadFloorMs: 0 }

beforeAll(async () => {
  server = await openManagement()
  strategy = await openPullRequests()
  controller = start()
}, 240_000)

afterAll(async () => {
  await controller?.stop()
  await strategy?.close()
  await closeServer(server)
})

const start = (more: Parameters<typeof startTestController>[1] = {}) =>
  startTestController(server, {
    settings,
    strategies: [strategy.strategy, notificationStrategy({ kube: server.kube, clock, events: null })],
    ...more,
  })

const open = (options?: ForgeStagesOptions) => openForgeStages(server, options)
type Stages = Awaited<ReturnType<typeof open>>

/** Moves dev and waits for the open pull request. */
async function promote(stages: Stages, revision = '6.0.0') {
  await stages.move('dev', revision)
  await waitFor('the pull request', async () => (await stages.newest()).status.effect?.prNumber !== undefined, {
    limitMs: 60_000,
    onTimeout: async () => JSON.stringify((await stages.promotions()).map(({ status }) => status)),
  })
  return stages.newest()
}

async function wakeOften({ key }: Stages): Promise<void> {
  for (let count = 0; count < 20; count++) {
    controller.wake(key)
    await controller.whenIdle()
  }
}

let requests = 0
/** Has the controller read the effect or the block again. */
const requestRead = ({ patch }: Stages) =>
  patch({ metadata: { annotations: { 'reconcile.fluxcd.io/requestedAt': `request ${++requests}` } } })

async function waitForReads(stages: Stages, count: number): Promise<void> {
  const reads = () => stages.forge.requests.filter((request) => /^GET .*\/pulls\/1$/.test(request)).length
  for (let number = 0; number < count; number++) {
    const before = reads()
    await requestRead(stages)
    await waitFor('a further read', () => reads() > before, { limitMs: 60_000 })
  }
}

async function waitForBlocked(stages: Stages, reason: string) {
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Blocked')
  await stages.waitForPending(reason)
  const { status } = await stages.newest()
  expect(status.reason).toBe(reason)
  return status
}

test.each(['github', 'gitlab'] as const)('[P37] %s: under policy Update the head has the compatible name', async (kind) => {
  const name = `podinfo-${kind}`
  const files = (owner: string) => ({ 'release.yaml': marked('6.0.0', owner) })
  const stages = await open({ kind, files, at: { namespace: 'flux-system', name }, policy: { supersede: 'Update' }, revision: '6.0.0' })
  await promote(stages, '6.0.1')
  expect(stages.forge.pulls).toMatchObject([{ head: `promotion-flux-system-${name}-prod`, state: 'open' }])
  expect(stages.forge.pulls[0]!.title).toContain('6.0.1')
})

test('[P38] github over HTTPS with a private authority, basic authentication and base production', async () => {
  const stages = await open({ hasTls: true, base: 'production' })
  const { spec } = await promote(stages)
  expect(stages.forge.pulls).toMatchObject([{ base: 'production', state: 'open' }])
  expect(stages.forge.pulls[0]!.body).toContain(`${stages.namespace}/podinfo/prod`)
  expect(stages.forge.pulls[0]!.body).toContain(spec.key)
})

test.each(['bitbucket-server', 'gitea', 'azure-devops'] as const)('[P39] %s: the next pass adopts the pull request', async (kind) => {
  const stages = await open({ kind })
  const { name } = await promote(stages)
  expect(stages.forge.pulls).toMatchObject([{ base: 'main', state: 'open' }])
  await stages.patchPromotion(name, { phase: 'Queued', effect: null })
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect((await stages.newest()).status.effect).toMatchObject({ prNumber: 1, prUrl: expect.stringContaining('http') })
  expect(stages.forge.pulls).toHaveLength(1)
})

test('[P40] branch, trailer and dates come from the record', async () => {
  const stages = await open()
  const { spec, createdAt, status } = await promote(stages)
  expect(status.effect?.branch).toMatch(new RegExp(`/${spec.run}-${spec.key.slice(0, 8)}$`))
  const commit = await stages.repository.readCommit(status.effect!.branch!)
  const seconds = Date.parse(createdAt) / 1000
  expect(commit).toContain(`author Brokkr Pipelines <pipelines@brokkr.io> ${seconds} +0000`)
  expect(commit).toContain(`committer Brokkr Pipelines <pipelines@brokkr.io> ${seconds} +0000`)
  expect(commit).toContain(`\nPromotion-Id: ${spec.key}\n`)
})

test('[P41] gitlab: the request changes the marked line of one file and nothing else', async () => {
  const stages = await open({ kind: 'gitlab' })
  const { status } = await promote(stages)
  expect(await stages.repository.diff('main', status.effect!.branch!)).toEqual(['1\t1\trelease.yaml'])
  expect(await stages.repository.read(status.effect!.branch!, 'release.yaml')).toBe(marked('6.0.0', stages.owner))
})

test.each(['acme', 'ada'])('[P42] a repository of %s: title, body and URL are right, one line changes', async (owner) => {
  const stages = await open({ owner })
  const { status, spec } = await promote(stages)
  expect(status.effect?.prUrl).toBe(`${stages.server.url}/${owner}/deploy/pulls/1`)
  expect(stages.forge.pulls[0]!.title).toBe(`Promote ${stages.namespace}/podinfo in prod to 6.0.0`)
  expect(stages.forge.pulls[0]!.body.split('\n').filter((line) => line !== '')).toEqual([
    `${stages.namespace}/podinfo/prod`,
    'Run: 2',
    'Revision before: 5.0.0',
    'Revision after: 6.0.0',
    'Files:',
    '- `release.yaml`',
    `<!-- brokkr-promotion: ${spec.key} -->`,
  ])
  expect(stages.forge.requests.every((request) => request.includes(`/repos/${owner}/deploy/`))).toBe(true)
  expect(await stages.repository.diff('main', status.effect!.branch!)).toEqual(['1\t1\trelease.yaml'])
})

test('[P44] a present strategy object selects the strategy, an absent one does not', async () => {
  const notify = async (strategySpec: object) => {
    const [dev, prod] = await Promise.all([server.plane.namespace('dev'), server.plane.namespace('prod')])
    await Promise.all([setRelease(server.kube, dev, 'v1'), setRelease(server.kube, prod, 'v0')])
    const pipeline = await openPipeline(server, {
      environments: [
        { name: 'dev', targets: [{ namespace: dev }] },
        { name: 'prod', targets: [{ namespace: prod }] },
      ],
      promotion: { strategy: strategySpec },
    })
    await pipeline.create()
    return pipeline
  }
  await (await notify({})).waitForPending('NoStrategy')
  const notified = await notify({ notification: {} })
  await notified.waitForPhases('1 prod v1 Applied')
  expect((await notified.promotions())[0]?.status.effect?.kind).toBe('notification')
  expect((await promote(await open())).status.effect?.kind).toBe('pull-request')
})

test.each(['', 'https://bot:hidden@forge.invalid/acme/deploy', 'ftp://forge.invalid/acme/deploy'])(
  '[P45] the URL "%s" blocks the promotion without a request or a process',
  async (url) => {
    const stages = await open({ strategy: { url } })
    const { message, attempts } = await waitForBlocked(stages, 'InvalidRepositoryURL')
    expect([stages.server.requests, stages.forge.requests, strategy.opened.includes(url)]).toEqual([[], [], false])
    expect(`${message} ${JSON.stringify(attempts)} ${JSON.stringify((await stages.read()).status)}`).not.toContain('hidden')
  },
)

test('[P45] a host that cannot be resolved is retried, and the message names the URL', async () => {
  const stages = await open({ strategy: { url: 'https://forge.invalid/acme/deploy' } })
  await stages.move('dev', '6.0.0')
  const attempt = await waitFor('a failed attempt', async () =>
    (await stages.newest()).status.attempts?.find(({ outcome }) => outcome === 'failed'),
  )
  expect(attempt.class).toBe('transient')
  expect(attempt.message).toContain('https://forge.invalid/')
  expect(attempt.message).not.toMatch(/api-token|git-word/)
  // It is tried again by itself.
  await waitFor('a second attempt', async () => ((await stages.newest()).status.attempts?.length ?? 0) >= 2)
  expect((await stages.phases())[0]).toMatch(/Queued|Running/)
})

test('[P46] a Secret without a token blocks before any push', async () => {
  const stages = await open({ secret: { token: undefined } })
  await waitForBlocked(stages, 'SecretIncomplete')
  expect([await stages.branches(), stages.server.requests]).toEqual([[], []])
})

test('[P46] a Secret without the password that Git needs blocks as an authentication failure', async () => {
  const stages = await open({ secret: { password: undefined } })
  const { message } = await waitForBlocked(stages, 'AuthenticationFailed')
  expect(message).toContain('authentication')
})

test('[P47] no marker for the environment blocks the promotion without a branch', async () => {
  const stages = await open({ files: () => ({ 'release.yaml': marked('5.0.0', 'shop:podinfo:dev') }) })
  await waitForBlocked(stages, 'MarkerNotFound')
  expect(await stages.branches()).toEqual([])
  // A commit that adds the marker ends the block.
  await stages.repository.commit({ 'release.yaml': marked('5.0.0', stages.owner) })
  await requestRead(stages)
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'open' }])
})

test('a base branch that does not exist blocks the promotion until it appears', async () => {
  const stages = await open({ strategy: { baseBranch: 'production' } })
  const { message } = await waitForBlocked(stages, 'BranchNotFound')
  expect(message).toContain('the base branch "production" does not exist')
  await stages.repository.git(['update-ref', 'refs/heads/production', (await stages.repository.tip('main'))!])
  await requestRead(stages)
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'open', base: 'production' }])
})

test('[P48] a marker on a block scalar blocks with file and line', async () => {
  const stages = await open({ files: (owner) => ({ 'a/b.yaml': `x: 1\ny: | # {"$promotion": "${owner}"}\n  5\n` }) })
  const { message } = await waitForBlocked(stages, 'MarkerUnsupported')
  expect(message).toContain('a/b.yaml:2')
})

test('[P48] a marker in a file that does not parse blocks', async () => {
  const stages = await open({ files: (owner) => ({ 'a.yaml': `x: [1\ny: 5 # {"$promotion": "${owner}"}\n` }) })
  await waitForBlocked(stages, 'MarkerUnreadable')
  expect(await stages.branches()).toEqual([])
})

test('[P51] a marked value that is the revision already needs neither branch nor pull request', async () => {
  const stages = await open({ kind: 'gitea', files: (owner) => ({ 'release.yaml': marked('6.0.0', owner) }) })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect((await stages.newest()).status.effect?.kind).toBe('none')
  expect([stages.forge.pulls, await stages.branches()]).toEqual([[], []])
})

test('[P52] an open pull request with our key that the record does not know is adopted', async () => {
  const stages = await open({ manual: true })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 AwaitingApproval')
  const promotion = await stages.newest()
  const texts = textsOf({ promotion, pipeline: { namespace: stages.namespace, name: stages.name, uid: promotion.spec.pipelineRef.uid } })
  const main = await stages.repository.tip('main')
  await stages.repository.git(['update-ref', `refs/heads/${texts.branch}`, main!])
  await stages.repository.commit({ 'release.yaml': marked('6.0.0', stages.owner) }, { branch: texts.branch, message: texts.message })
  await stages.forge.open({ title: 'as a crash left it', body: texts.body([]), head: texts.branch, base: 'main' })
  const decision = { subject: 'user:ann', groups: [], decision: 'approve' as const, message: undefined, via: 'api' }
  await new DecisionStore({ kube: server.kube, clock }).record(
    promotion,
    { ...decision, key: promotion.spec.key },
    AbortSignal.timeout(9_000),
  )
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect((await stages.newest()).status.effect?.prNumber).toBe(1)
  expect(stages.forge.pulls).toHaveLength(1)
})

test('[P53] a pull request closed unmerged ends the promotion and is never created again', async () => {
  const stages = await open()
  await promote(stages)
  const writes = () => [...stages.forge.requests, ...stages.server.requests].filter((request) => /^(POST|PATCH|PUT)/.test(request)).length
  stages.forge.change(stages.forge.pulls[0]!, { state: 'closed' })
  await requestRead(stages)
  await stages.waitForPhases('2 prod 6.0.0 Abandoned')
  await stages.waitForPending('Abandoned')
  const before = writes()
  await wakeOften(stages)
  // A process that remembers nothing decides the same.
  await controller.stop()
  controller = start()
  await controller.records.whenSynced(AbortSignal.timeout(30_000))
  await wakeOften(stages)
  expect([await stages.phases(), stages.forge.pulls.length, writes()]).toEqual([['2 prod 6.0.0 Abandoned'], 1, before])
})

test('[P54] under Close a newer run closes the pull request with a comment and opens another', async () => {
  const stages = await open()
  await promote(stages, '6.0.1')
  await stages.move('dev', '6.0.2')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'closed', comments: [expect.stringContaining('run 3')] }, { state: 'open' }])
  expect(await stages.branches()).toEqual([(await stages.newest()).status.effect?.branch])
})

test('[P54] under Update a newer run takes the same pull request and retitles it', async () => {
  const stages = await open({ policy: { supersede: 'Update' } })
  await promote(stages, '6.0.1')
  await stages.move('dev', '6.0.2')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'open', title: `Promote ${stages.key} in prod to 6.0.2` }])
  const { status } = await stages.newest()
  expect([status.effect?.prNumber, (await stages.promotions())[0]?.status.supersededBy]).toEqual([1, (await stages.newest()).name])
  expect(await stages.repository.read(status.effect!.branch!, 'release.yaml')).toBe(marked('6.0.2', stages.owner))
})

test('[P55] a change of the edited file in the base rebuilds the branch under the same pull request', async () => {
  const stages = await open()
  const { status } = await promote(stages)
  const tip = () => stages.repository.tip(status.effect!.branch!)
  const before = await tip()
  await stages.repository.commit({ 'other.yaml': 'a: 2\n' })
  await waitForReads(stages, 3)
  expect(await tip()).toBe(before)
  const base = await stages.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0', stages.owner)}` })
  await requestRead(stages)
  await waitFor('the new base', async () => (await stages.newest()).status.effect?.baseSha === base)
  expect(await stages.repository.readCommit(status.effect!.branch!)).toContain(`parent ${base}`)
  expect(await stages.repository.read(status.effect!.branch!, 'release.yaml')).toBe(`# new\n${marked('6.0.0', stages.owner)}`)
  expect([stages.forge.pulls.length, (await stages.newest()).status.effect?.prNumber]).toEqual([1, 1])
  expect(stages.forge.pulls[0]).toMatchObject({ state: 'open', comments: [] })
})

test("[P56] a person's commits on our branch stay", async () => {
  const stages = await open()
  const { status } = await promote(stages)
  const theirs = await stages.repository.commit({ 'note.txt': 'mine' }, { branch: status.effect!.branch! })
  await stages.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0', stages.owner)}` })
  await wakeOften(stages)
  // The second of them began after the commits, and has ended when the third begins.
  await waitForReads(stages, 3)
  expect(await stages.repository.tip(status.effect!.branch!)).toBe(theirs)
})

test('[P56] a foreign branch with our name blocks the promotion and stays', async () => {
  const stages = await open({ policy: { supersede: 'Update' } })
  const branch = `promotion-${stages.namespace}-podinfo-prod`
  const foreign = await stages.repository.commit({ 'x.txt': '1' }, { branch })
  await waitForBlocked(stages, 'BranchTaken')
  await wakeOften(stages)
  expect([await stages.repository.tip(branch), stages.forge.pulls]).toEqual([foreign, []])
})

test('[P57] a create whose answer is lost leaves one pull request, which is adopted', async () => {
  const stages = await open()
  stages.forge.faults.push({ route: /^POST .*pulls$/, kind: 'drop-after', times: 1 })
  const { status } = await promote(stages)
  expect(status.attempts?.map(({ outcome }) => outcome)).toEqual(['failed', 'succeeded'])
  expect(stages.forge.pulls).toHaveLength(1)
})

test('[P58] a rate limit delays the attempt as the forge says and uses up no attempt', async () => {
  const stages = await open()
  stages.forge.faults.push({ route: /./, kind: 'status', status: 429, headers: { 'retry-after': '7' }, times: 1 })
  await stages.move('dev', '6.0.0')
  await waitFor('the limited attempt', async () => (await stages.newest()).status.attempts?.[0]?.class === 'rate-limited')
  const limited = (await stages.newest()).status
  expect(limited.attemptCount).toBe(0)
  const dueMs = Date.parse(limited.nextAttemptAt ?? '')
  expect(dueMs - Date.parse(limited.attempts?.[0]?.startedAt ?? '')).toBeGreaterThanOrEqual(7_000)
  await wakeOften(stages)
  const calls = stages.forge.requests.length
  if (Date.now() < dueMs) expect(calls).toBe(1)
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  const { attempts, attemptCount } = (await stages.newest()).status
  expect([attemptCount, attempts?.map(({ outcome }) => outcome)]).toEqual([1, ['failed', 'succeeded']])
  expect(Date.parse(attempts?.[1]?.startedAt ?? '') + 999).toBeGreaterThanOrEqual(dueMs)
})

test('[P59] a wrong token blocks until the Secret changes', async () => {
  const stages = await open()
  stages.forge.token = 'other-token'
  await waitForBlocked(stages, 'AuthenticationFailed')
  const calls = stages.forge.requests.length
  await wakeOften(stages)
  expect([await stages.phases(), stages.forge.requests.length]).toEqual([['2 prod 6.0.0 Blocked'], calls])
  await stages.setSecret({ token: 'other-token' })
  // By the watch of the Secret: a block without a change ends after half an hour.
  await waitFor('the pull request', () => stages.forge.pulls.length === 1, { limitMs: 10_000 })
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'open' }])
})

test.each([
  [2, 2],
  [0, 1],
])('[P62] a forge that always fails ends %i allowed attempts after %i', async (allowed, made) => {
  const stages = await open({ policy: { attempts: allowed } })
  stages.forge.faults.push({ route: /./, kind: 'status', status: 500 })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Errored')
  await wakeOften(stages)
  expect([(await stages.newest()).status.attemptCount, stages.forge.requests.length]).toEqual([made, made])
})

test('[P62] a threshold of 0 still makes one attempt', async () => {
  await controller.stop()
  controller = start({ settings: { ...settings, decide: { ...fastSettings.decide, attempts: 0 } } })
  onTestFinished(async () => {
    await controller.stop()
    controller = start()
  })
  const stages = await open()
  stages.forge.faults.push({ route: /./, kind: 'status', status: 500 })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Errored')
  await wakeOften(stages)
  expect([(await stages.newest()).status.attemptCount, stages.forge.requests.length]).toEqual([1, 1])
})

test('[P82] a promotion whose forge is down shows the failed attempt and is retried by itself', async () => {
  const stages = await open({ policy: { attempts: 100 } })
  stages.forge.faults.push({ route: /./, kind: 'drop-before' })
  await stages.move('dev', '6.0.0')
  await waitFor('the failed attempt in both statuses', async () => {
    const { promotion } = (await stages.read()).status.environments?.['prod'] ?? {}
    const isShown = promotion?.lastAttemptedTime !== undefined && promotion.succeeded === false
    const pending = await stages.condition('PromotionPending')
    const failed = (await stages.newest()).status.attempts?.find(({ outcome }) => outcome === 'failed')
    return isShown && failed?.class === 'transient' && pending?.reason === (await stages.newest()).status.reason
  })
  expect(await stages.branches()).toEqual([])
  stages.forge.faults.splice(0)
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'open' }])
})

test('[P31] under Queue a newer revision waits until the run has ended', async () => {
  const stages = await open({ policy: { supersede: 'Queue' } })
  await promote(stages, '6.0.1')
  await stages.move('dev', '6.0.2')
  await stages.waitForTarget('dev', { revision: '6.0.2' })
  await wakeOften(stages)
  expect([(await stages.read()).status.run?.number, await stages.phases()]).toEqual([2, ['2 prod 6.0.1 Applied']])
  await stages.forge.merge(1)
  await stages.move('prod', '6.0.1')
  await stages.waitForPhases('2 prod 6.0.1 Succeeded', '3 prod 6.0.2 Applied')
})

test('[P34] [C10] two controllers that both act as leader make one record, one branch and one pull request', async () => {
  const second = await openPullRequests()
  const other = start({ strategies: [second.strategy], leadership: soleLeadership('other') })
  onTestFinished(async () => {
    await other.stop()
    await second.close()
  })
  const stages = await open()
  // Each of the two looks for a pull request before one of them may go on: both make the effects.
  const both = Promise.withResolvers<void>()
  const looks = () => stages.forge.requests.filter((request) => /^GET .*\/pulls$/.test(request)).length
  stages.forge.faults.push({ route: /^GET .*\/pulls$/, kind: 'delay', until: both.promise })
  await stages.move('dev', '6.0.0')
  await waitFor('both controllers', () => looks() >= 2, { limitMs: 60_000 })
  both.resolve()
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  await Promise.all([controller.whenIdle(), other.whenIdle()])
  expect(second.opened.filter((url) => url === stages.pullRequest.url).length).toBeGreaterThan(0)
  expect(stages.server.requests.filter((request) => request.endsWith('git-receive-pack')).length).toBeGreaterThan(0)
  expect([await stages.phases(), (await stages.branches()).length, stages.forge.pulls.length]).toEqual([['2 prod 6.0.0 Applied'], 1, 1])
})

test('a Git server that does not answer delays no other pipeline', async () => {
  await controller.stop()
  controller = start({ settings: { ...settings, workers: 1 } })
  onTestFinished(async () => {
    await controller.stop()
    controller = start()
  })
  const [slow, second] = await Promise.all([open(), open()])
  const hung = Promise.withResolvers<void>()
  slow.server.beforeAnswer = () => hung.promise
  await slow.move('dev', '6.0.0')
  await slow.waitForPhases('2 prod 6.0.0 Running')
  // Its effect waits for the only slot; observation, decision and record do not.
  await second.move('dev', '6.0.0')
  await second.waitForPhases('2 prod 6.0.0 Queued')
  await second.move('prod', '6.0.0')
  await second.waitForPhases('2 prod 6.0.0 Succeeded')
  await second.move('dev', '6.1.0')
  await second.waitForPhases('2 prod 6.0.0 Succeeded', '3 prod 6.1.0 Queued')
  hung.resolve()
  await Promise.all([slow.waitForPhases('2 prod 6.0.0 Applied'), second.waitForPhases('2 prod 6.0.0 Succeeded', '3 prod 6.1.0 Applied')])
})

test('[P63] a restarted controller makes no attempt before its time', async () => {
  const stages = await open({ policy: { attempts: 5 } })
  const fault = { route: /./, kind: 'status' as const, status: 500 }
  stages.forge.faults.push(fault)
  await stages.move('dev', '6.0.0')
  await waitFor('a failed attempt', async () => (await stages.newest()).status.attempts?.[0]?.outcome === 'failed')
  await controller.stop()
  const { name } = await stages.newest()
  const later = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
  await stages.patchPromotion(name, { phase: 'Queued', nextAttemptAt: later(60) })
  stages.forge.faults.splice(0)
  const before = stages.forge.requests.length
  controller = start()
  await controller.records.whenSynced(AbortSignal.timeout(30_000))
  await wakeOften(stages)
  expect(stages.forge.requests).toHaveLength(before)
  await stages.patchPromotion(name, { nextAttemptAt: later(0) })
  await stages.waitForPhases('2 prod 6.0.0 Applied')
})

test('a branch of the public controller is taken over with its pull request', async () => {
  const stages = await open({ policy: { supersede: 'Update' } })
  const branch = `promotion-${stages.namespace}-podinfo-prod`
  await stages.repository.git(['update-ref', `refs/heads/${branch}`, (await stages.repository.tip('main'))!])
  await stages.repository.commit({ 'release.yaml': marked('5.5.0', stages.owner) }, { branch, author: 'Promotion Server' })
  await stages.forge.open({ title: 'Promote podinfo', body: 'of the public controller', head: branch, base: 'main' })
  await promote(stages)
  expect(stages.forge.pulls).toMatchObject([{ state: 'open', title: `Promote ${stages.key} in prod to 6.0.0` }])
  expect(await stages.repository.read(branch, 'release.yaml')).toBe(marked('6.0.0', stages.owner))
})

test('a pull request of the public controller is closed when ours has another branch', async () => {
  const stages = await open()
  const branch = `promotion-${stages.namespace}-podinfo-prod`
  await stages.repository.git(['update-ref', `refs/heads/${branch}`, (await stages.repository.tip('main'))!])
  await stages.repository.commit({ 'release.yaml': marked('5.5.0', stages.owner) }, { branch, author: 'Promotion Server' })
  await stages.forge.open({ title: 'Promote podinfo', body: 'of the public controller', head: branch, base: 'main' })
  const { name, status } = await promote(stages)
  expect(stages.forge.pulls).toMatchObject([{ state: 'closed', comments: [expect.stringContaining(name)] }, { state: 'open' }])
  expect(await stages.branches()).toEqual([status.effect?.branch])
})

test('[C5] a base that moves between two attempts rewrites our branch, and one pull request follows it', async () => {
  const stages = await open()
  stages.forge.faults.push({ route: /^POST .*pulls$/, kind: 'status', status: 500 })
  await stages.move('dev', '6.0.0')
  await waitFor('a failed attempt', async () => (await stages.newest()).status.attempts?.[0]?.outcome === 'failed')
  const base = await stages.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0', stages.owner)}` })
  stages.forge.faults.splice(0)
  const { status } = await promote(stages)
  await requestRead(stages)
  await waitFor('the new base', async () => (await stages.repository.readCommit(status.effect!.branch!)).includes(`parent ${base}`))
  expect([stages.forge.pulls.length, await stages.branches()]).toEqual([1, [status.effect?.branch]])
})

test('[C11] an attempt that was paused while a newer run began opens no pull request', async () => {
  const stages = await open()
  const paused = Promise.withResolvers<void>()
  stages.forge.faults.push({ route: /^GET .*pulls$/, kind: 'delay', until: paused.promise, times: 1 })
  await stages.move('dev', '6.0.1')
  await stages.waitForPhases('2 prod 6.0.1 Running')
  await stages.move('dev', '6.0.2')
  // As another leader writes it.
  await stages.patchStatus({ run: { number: 3, revision: '6.0.2', startedAt: new Date().toISOString(), cause: { kind: 'detected' } } })
  paused.resolve()
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  const branch = (await stages.newest()).status.effect?.branch
  expect(stages.forge.pulls.map(({ head }) => head)).toEqual([branch])
  await waitFor('the end of the older branch', async () => (await stages.branches()).join() === branch)
})

test('[C8] after a loss of status and records a stale pull request is closed before ours opens', async () => {
  const stages = await open()
  const lost = await promote(stages)
  await controller.stop()
  await server.kube.delete({ apiVersion: 'pipelines.brokkr.io/v1alpha1', kind: 'Promotion', namespace: stages.namespace, name: lost.name })
  await stages.patchStatus({ run: null })
  await stages.move('dev', '6.0.1')
  controller = start()
  const { status } = await promote(stages, '6.0.1')
  expect(stages.forge.pulls).toMatchObject([{ state: 'closed' }, { state: 'open' }])
  expect(await stages.branches()).toEqual([status.effect?.branch])
})

test('a promotion whose pull request cannot be closed for lack of a Secret ends with a message', async () => {
  const stages = await open()
  await promote(stages, '6.0.1')
  await server.kube.delete({ apiVersion: 'v1', kind: 'Secret', namespace: stages.namespace, name: 'git-podinfo' })
  await stages.move('dev', '6.0.2')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Blocked')
  expect((await stages.promotions())[0]?.status.message).toMatch(/superseded by run 3.*not withdrawn: SecretNotFound/)
  await stages.setSecret()
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'closed', comments: [expect.stringContaining('has ended')] }, { state: 'open' }])
})

test('a pull request that cannot be closed now is shown, and closed later with one comment', async () => {
  const stages = await open()
  await promote(stages, '6.0.1')
  stages.forge.faults.push({ route: /^PATCH .*pulls\/1$/, kind: 'status', status: 500 })
  await stages.move('dev', '6.0.2')
  await stages.waitForPending('ForgeFailed')
  stages.forge.faults.splice(0)
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  expect(stages.forge.pulls).toMatchObject([{ state: 'closed', comments: [expect.stringContaining('run 3')] }, { state: 'open' }])
})

test('a promotion whose pull request can never be closed ends with a message, and the newer run goes on', async () => {
  const stages = await open({ policy: { attemptAge: '1s' } })
  await promote(stages, '6.0.1')
  stages.forge.faults.push({ route: /^GET .*pulls\/1$/, kind: 'status', status: 500 })
  await stages.move('dev', '6.0.2')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  expect((await stages.promotions())[0]?.status.message).toMatch(/superseded by run 3.*not withdrawn: ForgeFailed/)
  // The newer promotion closes what the older one left.
  expect(stages.forge.pulls).toMatchObject([{ state: 'closed', comments: [expect.stringContaining('has ended')] }, { state: 'open' }])
})

test('a rate limit delays the withdrawal as the forge says', async () => {
  const stages = await open()
  await promote(stages, '6.0.1')
  stages.forge.faults.push({ route: /^PATCH .*pulls\/1$/, kind: 'status', status: 429, headers: { 'retry-after': '3' }, times: 1 })
  await stages.move('dev', '6.0.2')
  await stages.waitForPending('RateLimited')
  const limited = (await stages.promotions())[0]!.status
  const dueMs = Date.parse(limited.nextAttemptAt ?? '')
  expect(dueMs - Date.parse(limited.effect?.withdrawnAt ?? '')).toBeGreaterThanOrEqual(3_000)
  await wakeOften(stages)
  const { state } = stages.forge.pulls[0]!
  if (Date.now() < dueMs) expect(state).toBe('open')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  const { effect, nextAttemptAt } = (await stages.promotions())[0]!.status
  expect([effect?.withdrawnAt, nextAttemptAt]).toEqual([limited.effect?.withdrawnAt, undefined])
})

test('the cleaner removes the branch of a promotion that has ended, and no other', async () => {
  const stages = await open()
  const kept = await stages.repository.commit({ 'x.txt': '1' }, { branch: 'promotion/of/a/person' })
  const { status } = await promote(stages)
  const branch = status.effect!.branch!
  const commit = (await stages.repository.tip(branch))!
  stages.forge.change(stages.forge.pulls[0]!, { state: 'closed' })
  await requestRead(stages)
  await stages.waitForPhases('2 prod 6.0.0 Abandoned')
  expect(await stages.repository.tip(branch)).toBe(commit)
  const other = start({ settings: { ...settings, cleaner: { everyMs: 200, ageMs: 0 } } })
  onTestFinished(() => other.stop())
  await waitFor('the end of the branch', async () => (await stages.repository.tip(branch)) === null)
  expect(await stages.repository.tip('promotion/of/a/person')).toBe(kept)
})
