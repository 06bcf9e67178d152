// The rows of the scenarios that need no faults, against a real Gitea.
import { type Gitea, startGitea } from '@brokkr/testing/servers/gitea.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { marked, openPullRequests } from '../test-parts/forge-world.ts'
import { openGiteaStages } from '../test-parts/gitea-stages.ts'
import { closeServer, fastSettings, openManagement, type Server, startTestController } from '../test-parts/world.ts'

let server: Server
let gitea: Gitea
let pullRequests: Awaited<ReturnType<typeof openPullRequests>>
let controller: ReturnType<typeof startTestController>

beforeAll(async () => {
  ;[server, gitea, pullRequests] = await Promise.all([openManagement(), startGitea(), openPullRequests()])
  const settings = { decide: { ...fastSettings.decide, effectPollMs: 500 } }
  controller = startTestController(server, { settings, strategies: [pullRequests.strategy] })
}, 240_000)

afterAll(async () => {
  await controller?.stop()
  await pullRequests?.close()
  await gitea?.stop()
  await closeServer(server)
})

const open = (options?: Parameters<typeof openGiteaStages>[2]) => openGiteaStages(server, gitea, options)

async function wakeOften(key: string): Promise<void> {
  for (let count = 0; count < 20; count++) {
    controller.wake(key)
    await controller.whenIdle()
  }
}

test('[P39] [P40] [P42] a pull request has the right base, texts and commit, and the next pass adopts it', async () => {
  const stages = await open()
  const { name, spec, status, createdAt } = await stages.promote('6.0.0')
  const [pull] = await stages.repository.pulls()
  expect(pull).toMatchObject({ state: 'open', base: { ref: 'main' }, title: `Promote ${stages.key} in prod to 6.0.0` })
  expect([pull?.html_url, pull?.head.ref]).toEqual([status.effect?.prUrl, status.effect?.branch])
  expect(pull?.body).toContain(`<!-- brokkr-promotion: ${spec.key} -->`)
  const changed = (await stages.repository.diff(1)).split('\n').filter((line) => /^[+-](?![+-])/.test(line))
  expect(changed).toEqual([`-    tag: 5.0.0 # {"$promotion": "${stages.owner}"}`, `+    tag: 6.0.0 # {"$promotion": "${stages.owner}"}`])
  const commit = await stages.repository.tip(status.effect!.branch!)
  expect(commit.message).toContain(`\nPromotion-Id: ${spec.key}\n`)
  expect([commit.author.name, Date.parse(commit.timestamp)]).toEqual(['Brokkr Pipelines', Date.parse(createdAt)])
  await stages.patchPromotion(name, { phase: 'Queued', effect: null })
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect([(await stages.newest()).status.effect?.prNumber, (await stages.repository.pulls()).length]).toEqual([1, 1])
})

test('a merge is seen, the branch is deleted, and the promotion succeeds with its targets', async () => {
  const stages = await open()
  await stages.promote('6.0.0')
  // Gitea computes after the creation whether a pull request can be merged.
  await waitFor('the merge', async () => (await stages.repository.merge(1), true))
  await waitFor('the merge in the status', async () => (await stages.newest()).status.effect?.prState === 'merged')
  expect((await stages.newest()).status.effect?.mergedSha).toMatch(/^[0-9a-f]{40}$/)
  await waitFor('the end of the branch', async () => (await stages.repository.branches()).join() === 'main')
  expect(await stages.repository.read('release.yaml', 'main')).toBe(marked('6.0.0', stages.owner))
  await stages.move('prod', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Succeeded')
})

test('[P47] no marker blocks the promotion without a branch', async () => {
  const stages = await open({ content: () => marked('5.0.0', 'shop:other:prod') })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Blocked')
  expect([(await stages.newest()).status.reason, await stages.repository.branches()]).toEqual(['MarkerNotFound', ['main']])
})

test('[P51] a marked value that is the revision already needs neither branch nor pull request', async () => {
  const stages = await open({ content: (owner) => marked('6.0.0', owner) })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect((await stages.newest()).status.effect?.kind).toBe('none')
  expect([await stages.repository.pulls(), await stages.repository.branches()]).toEqual([[], ['main']])
})

test('[P53] a pull request closed unmerged ends the promotion and is never created again', async () => {
  const stages = await open()
  await stages.promote('6.0.0')
  await stages.repository.close(1)
  await stages.waitForPhases('2 prod 6.0.0 Abandoned')
  await wakeOften(stages.key)
  expect([await stages.phases(), (await stages.repository.pulls()).length]).toEqual([['2 prod 6.0.0 Abandoned'], 1])
})

test('[P54] under Close a newer run closes the pull request with a comment and opens another', async () => {
  const stages = await open()
  await stages.promote('6.0.1')
  const { status } = await stages.promote('6.0.2')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  expect(await stages.repository.pulls()).toMatchObject([{ state: 'closed', merged: false }, { state: 'open' }])
  expect(await stages.repository.comments(1)).toEqual([expect.stringContaining('run 3')])
  expect((await stages.repository.branches()).toSorted()).toEqual(['main', status.effect!.branch!].toSorted())
})

test('[P54] [P37] under Update a newer run takes the same pull request and retitles it', async () => {
  const stages = await open({ policy: { supersede: 'Update' } })
  await stages.promote('6.0.1')
  await stages.promote('6.0.2')
  await stages.waitForPhases('2 prod 6.0.1 Superseded', '3 prod 6.0.2 Applied')
  const branch = `promotion-${stages.namespace}-podinfo-prod`
  expect(await stages.repository.pulls()).toMatchObject([
    { state: 'open', title: `Promote ${stages.key} in prod to 6.0.2`, head: { ref: branch } },
  ])
  expect(await stages.repository.read('release.yaml', branch)).toBe(marked('6.0.2', stages.owner))
})

test('[P55] a change of the edited file in the base rebuilds the branch under the same pull request', async () => {
  const stages = await open()
  const { status } = await stages.promote('6.0.0')
  const content = (value: string) => `# new\n${marked(value, stages.owner)}`
  await stages.repository.write('release.yaml', content('5.0.0'))
  const base = (await stages.repository.tip('main')).id
  await waitFor('the new base', async () => (await stages.newest()).status.effect?.baseSha === base)
  expect(await stages.repository.read('release.yaml', status.effect!.branch!)).toBe(content('6.0.0'))
  expect(await stages.repository.pulls()).toMatchObject([{ number: 1, state: 'open' }])
})

test("[P56] a person's commits on our branch stay, and a foreign branch with our name blocks", async () => {
  const stages = await open()
  const { status } = await stages.promote('6.0.0')
  const branch = status.effect!.branch!
  await stages.repository.write('note.txt', 'mine\n', branch)
  const theirs = (await stages.repository.tip(branch)).id
  await stages.repository.write('release.yaml', `# new\n${marked('5.0.0', stages.owner)}`)
  await wakeOften(stages.key)
  await stages.repository.close(1)
  await stages.waitForPhases('2 prod 6.0.0 Abandoned')
  expect((await stages.repository.tip(branch)).id).toBe(theirs)

  const other = await open({ policy: { supersede: 'Update' } })
  const taken = `promotion-${other.namespace}-podinfo-prod`
  await other.repository.createBranch(taken)
  await other.repository.write('note.txt', 'mine\n', taken)
  const foreign = (await other.repository.tip(taken)).id
  await other.move('dev', '6.0.0')
  await other.waitForPhases('2 prod 6.0.0 Blocked')
  expect([(await other.newest()).status.reason, (await other.repository.tip(taken)).id]).toEqual(['BranchTaken', foreign])
})

test('[P59] a wrong token blocks until the Secret changes', async () => {
  const stages = await open({ token: '0'.repeat(40) })
  await stages.move('dev', '6.0.0')
  await stages.waitForPhases('2 prod 6.0.0 Blocked')
  expect((await stages.newest()).status.reason).toBe('AuthenticationFailed')
  await stages.setSecret(gitea.token)
  await stages.waitForPhases('2 prod 6.0.0 Applied')
  expect(await stages.repository.pulls()).toHaveLength(1)
})
