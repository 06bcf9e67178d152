import type { ForgeKind } from '@brokkr/testing/servers/forge-dialects.ts'
import { afterEach, describe, expect, test } from 'vitest'
import { type ForgeWorldOptions, marked, openForgeWorld } from '../test-parts/forge-world.ts'
import { textsOf } from './pull-request-texts.ts'

type World = Awaited<ReturnType<typeof openForgeWorld>>
const worlds: World[] = []
const open = async (options?: ForgeWorldOptions): Promise<World> => {
  const world = await openForgeWorld(options)
  worlds.push(world)
  return world
}
afterEach(async () => {
  await Promise.all(worlds.splice(0).map((world) => world.close()))
})

/** Replaces the commit of the promotion by one of a person with the same message and parent, and other content. */
async function amend(
  { repository }: World,
  { record, effect }: ReturnType<World['promotion']>,
  { author, isDated = false }: { author: string; isDated?: boolean },
): Promise<string> {
  const { message } = textsOf({ promotion: record, pipeline: { namespace: 'shop', name: 'podinfo', uid: 'u' } })
  const ref = `refs/heads/${effect.branch}`
  await repository.git(['update-ref', ref, effect.baseSha!])
  const theirs = await repository.commit(
    { 'release.yaml': marked('6.0.0'), 'note.txt': 'mine' },
    { branch: effect.branch!, message, author },
  )
  if (!isDated) return theirs
  const raw = (await repository.readCommit(theirs)).replaceAll(
    / <d@x> \d+ /g,
    ` <pipelines@brokkr.io> ${Date.parse(record.createdAt) / 1000} `,
  )
  const dated = (await repository.git(['hash-object', '-t', 'commit', '-w', '--stdin'], { input: raw })).trim()
  await repository.git(['update-ref', ref, dated])
  return dated
}

const branches = async ({ repository }: World): Promise<string[]> => (await repository.branches()).filter((name) => name !== 'main')

describe('a promotion opens one pull request', () => {
  test.each(['github', 'gitlab', 'gitea', 'azure-devops'] as const)('%s: labels are set', async (kind) => {
    const world = await open({ kind })
    await world.promotion({ spec: { labels: ['promotion', 'prod'] } }).run()
    expect(world.forge.pulls[0]!.labels).toEqual(['promotion', 'prod'])
  })
})

describe('a promotion is refused before it has an effect', () => {
  test('a newer run stops the attempt between push and pull request', async () => {
    const world = await open()
    const promotion = world.promotion()
    promotion.hasNewerRun = true
    expect(await promotion.run()).toEqual({ outcome: 'stopped' })
    expect(world.forge.pulls).toEqual([])
  })
})

const kinds: ForgeKind[] = ['github', 'gitlab', 'gitea', 'bitbucket-server', 'azure-devops']

describe('a promotion finds its effects again', () => {
  test('a pull request whose key was edited away is adopted and gets its key back', async () => {
    const world = await open()
    const promotion = world.promotion()
    await promotion.run()
    promotion.forget()
    world.forge.pulls[0]!.body = 'edited'
    expect(await promotion.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 1 } })
    expect(world.forge.pulls).toHaveLength(1)
    expect(world.forge.pulls[0]!.body).toContain(promotion.record.spec.key)
  })

  test.each(kinds)('%s: a create whose answer is lost leaves one pull request', async (kind) => {
    const world = await open({ kind })
    world.forge.faults.push({ route: /^POST .*(pulls|merge_requests|pull-requests|pullrequests)$/, kind: 'drop-after', times: 1 })
    const promotion = world.promotion()
    expect(await promotion.run()).toMatchObject({ outcome: 'failed', class: 'transient' })
    expect(await promotion.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 1 } })
    expect(world.forge.pulls).toHaveLength(1)
  })

  test.each(kinds)('%s: a pull request from a fork with our head and key is not ours', async (kind) => {
    const world = await open({ kind })
    const promotion = world.promotion()
    const { branch, body } = textsOf({ promotion: promotion.record, pipeline: { namespace: 'shop', name: 'podinfo', uid: 'u' } })
    await world.forge.open({ title: 'of a stranger', body: body([]), head: branch, base: 'main', isFork: true })
    expect(await promotion.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 2 } })
    expect(world.forge.pulls).toMatchObject([
      { state: 'open', comments: [] },
      { state: 'open', head: branch },
    ])
  })

  test('two attempts at once make one branch and one pull request', async () => {
    const world = await open()
    const [one, two] = [world.promotion(), world.promotion()]
    const results = await Promise.all([one.run(), two.run()])
    expect(results).toMatchObject([
      { outcome: 'applied', effect: { prNumber: 1 } },
      { outcome: 'applied', effect: { prNumber: 1 } },
    ])
    expect(world.forge.pulls).toHaveLength(1)
    expect(await branches(world)).toHaveLength(1)
  })
})

describe('an effect goes on living', () => {
  test.each(kinds)('%s: a newer run closes the old one with a comment under Close', async (kind) => {
    const world = await open({ kind })
    const old = world.promotion({ run: 1, revision: '6.0.1' })
    await old.run()
    expect(await old.withdraw('Superseded by run 2: 6.0.2.')).toMatchObject({ outcome: 'withdrawn', effect: { prState: 'abandoned' } })
    const next = world.promotion({ run: 2, revision: '6.0.2' })
    expect(await next.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 2 } })
    expect(world.forge.pulls).toMatchObject([{ state: 'closed', comments: ['Superseded by run 2: 6.0.2.'] }, { state: 'open' }])
    expect(await branches(world)).toEqual([next.effect.branch])
  })

  test.each(kinds)('%s: a newer run takes the same pull request under Update', async (kind) => {
    const world = await open({ kind })
    await world.promotion({ run: 1, revision: '6.0.1', supersede: 'Update' }).run()
    const next = world.promotion({ run: 2, revision: '6.0.2', supersede: 'Update' })
    expect(await next.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 1 } })
    expect(world.forge.pulls).toMatchObject([{ state: 'open', title: 'Promote shop/podinfo in prod to 6.0.2' }])
    expect(world.forge.pulls[0]!.body).toContain(next.record.spec.key)
    expect(await world.repository.read(next.effect.branch!, 'release.yaml')).toBe(marked('6.0.2'))
  })

  test("a person's commits on our branch stay", async () => {
    const world = await open()
    const promotion = world.promotion()
    await promotion.run()
    const theirs = await world.repository.commit({ 'note.txt': 'mine' }, { branch: promotion.effect.branch! })
    await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
    for (let times = 0; times < 3; times += 1) {
      await promotion.observe()
      await promotion.run()
    }
    expect(await world.repository.tip(promotion.effect.branch!)).toBe(theirs)
    await promotion.withdraw('done')
    expect(await world.repository.tip(promotion.effect.branch!)).toBe(theirs)
  })

  test("a person's amended commit stays while the pull request cannot be opened", async () => {
    const world = await open()
    const promotion = world.promotion()
    world.forge.faults.push({ route: /^POST .*pulls$/, kind: 'status', status: 500, times: 3 })
    await promotion.run()
    const { branch, commitSha } = promotion.effect
    const theirs = await amend(world, promotion, { author: 'Ann' })
    for (let times = 0; times < 2; times += 1) expect(await promotion.run()).toMatchObject({ outcome: 'failed' })
    expect([await world.repository.tip(branch!), promotion.effect.commitSha]).toEqual([theirs, commitSha])
    await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
    expect(await promotion.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 1 } })
    await promotion.observe()
    await promotion.withdraw('ended')
    expect([await world.repository.tip(branch!), promotion.effect.commitSha]).toEqual([theirs, commitSha])
  })

  test.each(['of a record', 'of a lost record'])(
    'a commit with our trailer, identity and dates %s but another tree stays',
    async (record) => {
      const world = await open()
      const promotion = world.promotion()
      await promotion.run()
      const { branch } = promotion.effect
      const theirs = await amend(world, promotion, { author: 'Brokkr Pipelines', isDated: true })
      if (record === 'of a lost record') promotion.forget()
      await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
      await promotion.run()
      await promotion.observe()
      await promotion.withdraw('ended')
      await promotion.clean()
      expect(await world.repository.tip(branch!)).toBe(theirs)
    },
  )

  test("under Update a person's amended commit of an earlier run blocks the newer one", async () => {
    const world = await open()
    const old = world.promotion({ run: 1, revision: '6.0.1', supersede: 'Update' })
    await old.run()
    const theirs = await amend(world, old, { author: 'Ann' })
    const next = world.promotion({ run: 2, revision: '6.0.2', supersede: 'Update' })
    expect(await next.run()).toMatchObject({ outcome: 'failed', reason: 'BranchTaken' })
    expect(await world.repository.tip(old.effect.branch!)).toBe(theirs)
  })

  test('an author that git stores in another form is ours: the branch is followed, taken by a newer run and deleted', async () => {
    const world = await open()
    const spec = { author: { name: 'Acme Inc.', email: '<ci@acme.example>' } }
    const old = world.promotion({ run: 1, revision: '6.0.1', supersede: 'Update', spec })
    await old.run()
    const base = await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
    await old.observe()
    expect(await world.repository.readCommit(old.effect.branch!)).toContain(`parent ${base}`)
    const next = world.promotion({ run: 2, revision: '6.0.2', supersede: 'Update', spec })
    expect(await next.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 1 } })
    await next.withdraw('ended')
    expect(await branches(world)).toEqual([])
  })

  test('under Update the recorded commit of an earlier run with another author is rewritten', async () => {
    const world = await open()
    const by = (name: string) => ({ author: { name, email: 'ci@acme.example' } })
    await world.promotion({ run: 1, revision: '6.0.1', supersede: 'Update', spec: by('Before') }).run()
    const next = world.promotion({ run: 2, revision: '6.0.2', supersede: 'Update', spec: by('After') })
    expect(await next.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 1 } })
    expect(await world.repository.read(next.effect.branch!, 'release.yaml')).toBe(marked('6.0.2'))
  })

  test('our commit on an older base, pushed before a crash, is rewritten', async () => {
    const world = await open()
    const promotion = world.promotion()
    world.forge.faults.push({ route: /^POST .*pulls$/, kind: 'status', status: 500, times: 1 })
    await promotion.run()
    const { branch } = promotion.effect
    promotion.forget()
    const base = await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
    expect(await promotion.run()).toMatchObject({ outcome: 'applied' })
    expect(await world.repository.readCommit(branch!)).toContain(`parent ${base}`)
  })

  test('a comment that fails neither stops the end of a pull request nor is repeated', async () => {
    const world = await open()
    const promotion = world.promotion()
    await promotion.run()
    world.forge.faults.push({ route: /^POST .*comments$/, kind: 'status', status: 500, times: 1 })
    expect(await promotion.withdraw('ended')).toMatchObject({ outcome: 'withdrawn', effect: { prState: 'abandoned' } })
    expect(promotion.effect.withdrawnAt).toBeDefined()
    await promotion.withdraw('ended')
    expect(world.forge.pulls).toMatchObject([{ state: 'closed', comments: [] }])
    expect(await branches(world)).toEqual([])
  })

  test('a pull request of a promotion that has ended is closed before another one opens', async () => {
    const world = await open()
    const old = world.promotion({ run: 1, revision: '6.0.1' })
    await old.run()
    old.end()
    const next = world.promotion({ run: 2, revision: '6.0.2' })
    expect(await next.run()).toMatchObject({ outcome: 'applied', effect: { prNumber: 2 } })
    expect(world.forge.pulls).toMatchObject([{ state: 'closed', comments: [expect.stringContaining('has ended')] }, { state: 'open' }])
    expect(await branches(world)).toEqual([next.effect.branch])
  })

  test('the branch of a closed pull request stays if a person amended our commit', async () => {
    const world = await open()
    const old = world.promotion({ run: 1, revision: '6.0.1' })
    await old.run()
    const theirs = await amend(world, old, { author: 'Ann' })
    old.end()
    await world.promotion({ run: 2, revision: '6.0.2' }).run()
    expect(world.forge.pulls).toMatchObject([{ state: 'closed' }, { state: 'open' }])
    expect(await world.repository.tip(old.effect.branch!)).toBe(theirs)
  })

  test.each(kinds)('%s: an effect that has not changed is answered with 304, and a change is seen', async (kind) => {
    const world = await open({ kind })
    const promotion = world.promotion()
    await promotion.run()
    await promotion.observe()
    const before = world.forge.notModified
    expect(await promotion.observe()).toMatchObject({ outcome: 'observed', effect: { prNumber: 1 } })
    expect(world.forge.notModified).toBeGreaterThan(before)
    await world.forge.merge(1)
    expect(await promotion.observe()).toMatchObject({ effect: { prState: 'merged' } })
  })

  test('a branch that was rebuilt before a crash is followed further', async () => {
    const world = await open()
    const promotion = world.promotion()
    await promotion.run()
    const before = promotion.effect
    await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
    await promotion.observe()
    const rebuilt = promotion.effect
    expect(rebuilt.commitSha).not.toBe(before.commitSha)
    promotion.restore(before)
    await promotion.observe()
    expect(promotion.effect).toMatchObject({ commitSha: rebuilt.commitSha, baseSha: rebuilt.baseSha })
  })

  test.each([
    ['merged', 'observe'],
    ['closed', 'withdraw'],
    ['closed', 'clean'],
  ] as const)('a branch that was rebuilt before a crash and whose pull request was %s is removed by %s', async (state, act) => {
    const world = await open()
    const promotion = world.promotion()
    await promotion.run()
    const before = promotion.effect
    await world.repository.commit({ 'release.yaml': `# new\n${marked('5.0.0')}` })
    await promotion.observe()
    expect(await world.repository.tip(before.branch!)).not.toBe(before.commitSha)
    promotion.restore(before)
    if (state === 'merged') await world.forge.merge(1)
    else world.forge.change(world.forge.pulls[0]!, { state })
    await (act === 'withdraw' ? promotion.withdraw('ended') : promotion[act]())
    expect(await branches(world)).toEqual([])
  })

  test('the cleaner keeps a branch that a person amended or that another pull request uses', async () => {
    const world = await open()
    const [amended, used, ended] = [1, 2, 3].map((run) => world.promotion({ run }))
    for (const promotion of [amended!, used!, ended!]) {
      await promotion.run()
      world.forge.change(world.forge.pulls.at(-1)!, { state: 'closed' })
    }
    const { message } = textsOf({ promotion: amended!.record, pipeline: { namespace: 'shop', name: 'podinfo', uid: 'u' } })
    const theirs = await world.repository.commit({ 'note.txt': 'mine' }, { branch: amended!.effect.branch!, message })
    await world.repository.git(['update-ref', 'refs/heads/stable', (await world.repository.tip('main'))!])
    await world.forge.open({ title: 'of a person', body: '', head: used!.effect.branch!, base: 'stable' })
    expect(await used!.clean()).toEqual({ outcome: 'kept' })
    await amended!.clean()
    expect(await ended!.clean()).toEqual({ outcome: 'cleaned' })
    expect(await world.repository.tip(amended!.effect.branch!)).toBe(theirs)
    expect((await branches(world)).toSorted()).toEqual([amended!.effect.branch!, 'stable', used!.effect.branch!].toSorted())
  })

  test.each(kinds)('%s: a merge is seen and our branch is deleted', async (kind) => {
    const world = await open({ kind })
    const promotion = world.promotion()
    await promotion.run()
    const mergedSha = await world.forge.merge(1)
    expect(await promotion.observe()).toMatchObject({ effect: { prState: 'merged', mergedSha } })
    expect(await branches(world)).toEqual([])
    promotion.forget()
    expect(await promotion.run()).toMatchObject({ outcome: 'applied', effect: { prState: 'merged' } })
    expect(await promotion.withdraw('late')).toMatchObject({ effect: { prState: 'merged' } })
    expect(world.forge.pulls[0]!.comments).toEqual([])
  })
})

test('no credential reaches a message, a commit or a pull request', async () => {
  const world = await open()
  const promotion = world.promotion()
  const results = [await promotion.run(), await promotion.observe()]
  const commit = await world.repository.readCommit(promotion.effect.branch!)
  const text = JSON.stringify([results, world.forge.pulls, promotion.record.status, commit])
  expect(text).not.toContain('git-word')
  expect(text).not.toContain('api-token')
})

test('a revision with line breaks forges neither a trailer nor a key', async () => {
  const world = await open()
  const revision = '6\n\nPromotion-Id: forged\r<!-- brokkr-promotion: forged -->'
  const { record } = world.promotion({ revision })
  const { title, message, body } = textsOf({ promotion: record, pipeline: { namespace: 'shop', name: 'podinfo', uid: 'u' } })
  expect(title).not.toMatch(/[\r\n]/)
  expect(message.match(/^Promotion-Id: .*$/gm)).toEqual([`Promotion-Id: ${record.spec.key}`])
  expect(body([]).match(/<!-- brokkr-promotion: \S+ -->/g)).toEqual([`<!-- brokkr-promotion: ${record.spec.key} -->`])
})
