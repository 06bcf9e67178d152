import type { Kube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { notificationStrategy } from '../strategies/notification.ts'
import { openPullRequests } from '../test-parts/forge-world.ts'
import {
  createToken,
  KEY,
  openHooks,
  openProgramKube,
  openShop,
  openShopForges,
  openUser,
  type ShopForges,
  send,
  sendFrom,
  sign,
  signBody,
  VOUCHING_KEY,
} from '../test-parts/hooks-world.ts'
import { closeServer, openManagement, type Server, startTestController } from '../test-parts/world.ts'
import { FAILED_TEXT } from './outcome.ts'

let server: Server
let kube: Kube
let controller: ReturnType<typeof startTestController>
let hooks: Awaited<ReturnType<typeof openHooks>>
let forges: ShopForges
let pullRequests: Awaited<ReturnType<typeof openPullRequests>>

beforeAll(async () => {
  server = await openManagement()
  kube = await openProgramKube(server)
  forges = await openShopForges()
  pullRequests = await openPullRequests()
  controller = startTestController(server, {
    kube,
    strategies: [pullRequests.strategy, notificationStrategy({ kube, clock, events: null })],
  })
  hooks = await openHooks(kube, controller)
}, 240_000)

afterAll(async () => {
  await hooks?.close()
  await controller?.stop()
  await pullRequests?.close()
  await forges?.close()
  await closeServer(server)
})

const secretRef = { name: 'hook' }
const PROMOTIONS = { group: 'pipelines.brokkr.io', resource: 'promotions' }
const PIPELINES = { group: 'pipelines.weave.works', resource: 'pipelines' }
type Shop = Awaited<ReturnType<typeof openShop>>

async function openSecond(settings: Parameters<typeof openHooks>[2]) {
  const second = await openHooks(kube, controller, settings)
  onTestFinished(() => second.close())
  return second
}

const post = (path: string, body: string, headers: Record<string, string> = {}) => send(hooks, 'POST', path, { body, headers })
const postSigned = (path: string, body = '', more: Parameters<typeof sign>[2] = {}) =>
  send(hooks, 'POST', path, { body, headers: sign('POST', path, { body, ...more }) })

async function openAwaiting(spec: Record<string, unknown> = {}, approval: object = {}): Promise<Shop> {
  const shop = await openShop(server, forges, {
    promotion: { manual: true, strategy: { 'pull-request': forges.pullRequest(), secretRef } },
    environments: { prod: { approval } },
    ...spec,
  })
  await shop.waitForPhase('1 prod 5.0.0 AwaitingApproval')
  return shop
}

test('[P65] a promotion call with another method, path or body is refused', async () => {
  const shop = await openShop(server, forges)
  expect((await send(hooks, 'GET', shop.promotionPath())).status).toBe(405)
  expect((await post('/', shop.event())).status).toBe(404)
  expect((await post(`${shop.promotionPath()}/`, shop.event())).status).toBe(404)
  expect((await post(shop.promotionPath(), '')).status).toBe(400)
  expect((await post(shop.promotionPath(), 'hello')).status).toBe(400)
  expect((await post(shop.promotionPath(), shop.event(''))).status).toBe(422)
  expect((await post(`/promotion/${shop.namespace}/absent/dev`, shop.event())).status).toBe(404)
  expect((await post(shop.promotionPath(), 'x'.repeat(1024 * 1024 + 1))).status).toBe(413)
})

test('[P66] under Watch a signature of the body is accepted and a wrong one refused', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { 'pull-request': forges.pullRequest(), secretRef } } })
  expect((await post(shop.promotionPath(), shop.event(), signBody(shop.event()))).status).toBe(201)
  expect((await post(shop.promotionPath(), shop.event(), signBody(shop.event(), 'wrong'))).status).toBe(401)
  expect((await post(shop.promotionPath(), shop.event())).status).toBe(401)
})

test('[P67] an event of another object does not match', async () => {
  const shop = await openShop(server, forges)
  for (const object of [{ name: 'other' }, { namespace: 'other' }, { kind: 'Kustomization' }]) {
    const { status, text } = await post(shop.promotionPath(), shop.event('5.0.0', object))
    expect([status, text]).toEqual([422, expect.stringContaining('does not match')])
  }
})

test('[P68] an event of the last or an unknown environment, or before one without targets, is refused', async () => {
  const shop = await openShop(server, forges, { environments: { staging: { targets: [] } } }, ['dev', 'staging', 'prod'])
  for (const [source, named] of [
    ['prod', 'prod'],
    ['dev', 'staging'],
    ['nowhere', 'nowhere'],
  ] as const) {
    const { status, text } = await post(shop.promotionPath(source), shop.event())
    expect([source, status, text]).toEqual([source, 422, expect.stringContaining(named)])
  }
})

test('[P69] a valid event is answered with the address of the pull request', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { 'pull-request': forges.pullRequest() } } })
  const { status, headers, text } = await post(shop.promotionPath(), shop.event())
  const { status: stored } = await shop.newest()
  expect([status, text, headers.get('location')]).toEqual([201, '', stored.effect?.prUrl])
  const pull = forges.working.forge.pulls.find(({ head }) => head === stored.effect?.branch)
  expect([pull?.state, stored.effect?.prNumber]).toEqual(['open', pull?.number])
})

test('[P70] a failing forge and an absent promotion spec are answered with a fixed text', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { 'pull-request': forges.failingPullRequest() } } })
  const failed = await post(shop.promotionPath(), shop.event())
  expect([failed.status, failed.text]).toEqual([500, FAILED_TEXT])
  expect((await shop.newest()).status.attempts?.[0]?.outcome).toBe('failed')
  const bare = await openShop(server, forges, { promotion: undefined })
  const refused = await post(bare.promotionPath(), bare.event())
  expect([refused.status, refused.text]).toEqual([500, FAILED_TEXT])
  expect(await bare.promotions()).toEqual([])
})

test('[P71] a notification and an awaited approval are answered without an address', async () => {
  const shop = await openShop(server, forges)
  const sent = await post(shop.promotionPath(), shop.event())
  expect([sent.status, sent.headers.get('location')]).toEqual([204, null])
  const manual = await openShop(server, forges, { promotion: { manual: true, strategy: { notification: {} } } })
  expect((await post(manual.promotionPath(), manual.event())).status).toBe(204)
  await waitFor('the mirror', async () => (await manual.read()).status.environments?.['prod']?.waitingApproval?.revision === '5.0.0')
  expect((await manual.newest()).status.effect).toBeUndefined()
})

test('[P72] under Watch an event is not believed', async () => {
  const impatient = await openSecond({ waitMs: 300 })
  const shop = await openShop(server, forges)
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  expect((await send(impatient, 'POST', shop.promotionPath(), { body: shop.event('9.9.9') })).status).toBe(202)
  await controller.whenIdle()
  expect(await shop.phases()).toEqual(['1 prod 5.0.0 Applied'])
})

test('[P73] under Webhook a repeated event finds the same promotion', async () => {
  const shop = await openShop(server, forges, {
    policy: { trigger: 'Webhook' },
    promotion: { strategy: { 'pull-request': forges.pullRequest(), secretRef } },
  })
  const path = shop.promotionPath()
  const answers = [await postSigned(path, shop.event()), await postSigned(path, shop.event())]
  expect(answers.map(({ status }) => status)).toEqual([201, 201])
  expect(answers[0]?.headers.get('location')).toBe(answers[1]?.headers.get('location'))
  expect(await shop.promotions()).toHaveLength(1)
  expect((await shop.read()).status.run).toMatchObject({ number: 1, revision: '5.0.0', cause: { kind: 'webhook' } })
  expect((await post(path, shop.event())).status).toBe(401)
  expect((await post(path, shop.event(), signBody(shop.event()))).status).toBe(401)
  const lenient = await openSecond({ allowLegacySignature: true })
  expect((await send(lenient, 'POST', path, { body: shop.event(), headers: signBody(shop.event()) })).status).toBe(201)
  expect(lenient.warnings).toEqual(['LegacySignature'])
})

test('under Webhook an event of a later environment cannot return to a superseded revision', async () => {
  const shop = await openShop(
    server,
    forges,
    { policy: { trigger: 'Webhook' }, promotion: { strategy: { 'pull-request': forges.pullRequest(), secretRef } } },
    ['dev', 'staging', 'prod'],
  )
  for (const revision of ['1', '2']) expect((await postSigned(shop.promotionPath(), shop.event(revision))).status).toBe(201)
  const late = shop.event('1', { namespace: shop.namespaces['staging']! })
  expect((await postSigned(shop.promotionPath('staging'), late)).status).toBe(409)
  expect((await shop.read()).status.run?.number).toBe(2)
})

test('[P74] an approval call with another method, path, signature or revision is refused', async () => {
  const shop = await openAwaiting()
  const path = shop.approvalPath('5.0.0')
  expect((await send(hooks, 'GET', path)).status).toBe(405)
  expect((await post('/', '')).status).toBe(404)
  expect((await post(`/approval/${shop.namespace}/${shop.name}/prod`, '')).status).toBe(404)
  const unknown = `/approval/${shop.namespace}/absent/prod/5.0.0`
  expect((await postSigned(unknown)).status).toBe(404)
  expect((await postSigned(path, '', { key: 'wrong' })).status).toBe(401)
  expect((await postSigned(shop.approvalPath('4.0.0'))).status).toBe(422)
  const { bearer } = await openUser(server.kube, shop.namespace, 'ann', [{ verb: 'approve', ...PROMOTIONS }])
  await shop.patch({ spec: { promotion: null } })
  expect((await post(shop.approvalPath('4.0.0'), '', bearer)).status).toBe(422)
})

test('[P75] an approval starts the effect and is answered with the address', async () => {
  for (const revision of ['5.0.0', 'team/x']) {
    const shop = await openAwaiting()
    if (revision !== '5.0.0') {
      await shop.move('dev', revision)
      await shop.waitForPhase(`2 prod ${revision} AwaitingApproval`)
    }
    const { status, headers, text } = await postSigned(shop.approvalPath(encodeURIComponent(revision)))
    expect([status, text]).toEqual([201, ''])
    const { spec, status: stored } = await shop.newest()
    expect(headers.get('location')).toBe(stored.effect?.prUrl)
    expect([spec.revision, stored.approvals?.map(({ subject, via }) => [subject, via])]).toEqual([
      revision,
      [[`key:${shop.namespace}/hook`, 'hook']],
    ])
  }
})

test('[P76] a superseded, a rejected and an expired promotion take no approval', async () => {
  const decide = async (shop: Shop, name: string, decision: string, key: string) => {
    const path = `/promotions/${shop.namespace}/${name}/decision`
    return postSigned(path, JSON.stringify({ decision, key }))
  }
  const shop = await openAwaiting()
  const old = await shop.newest()
  await shop.move('dev', '5.0.1')
  await shop.waitForPhase('2 prod 5.0.1 AwaitingApproval')
  await waitFor('the end of run 1', async () => (await shop.phases())[0] === '1 prod 5.0.0 Superseded')
  const late = await decide(shop, old.name, 'approve', old.spec.key)
  const current = await shop.newest()
  expect([late.status, JSON.parse(late.text).currentKey]).toEqual([409, current.spec.key])
  expect((await decide(shop, current.name, 'reject', current.spec.key)).status).toBe(200)
  await shop.waitForPhase('2 prod 5.0.1 Rejected')
  expect((await decide(shop, current.name, 'approve', current.spec.key)).status).toBe(409)
  expect((await shop.promotions()).map(({ status }) => status.effect)).toEqual([undefined, undefined])
  const brief = await openShop(server, forges, {
    promotion: { manual: true, strategy: { 'pull-request': forges.pullRequest(), secretRef } },
    environments: { prod: { approval: { deadline: '1s' } } },
  })
  await brief.waitForPhase('1 prod 5.0.0 Expired')
  const expired = await brief.newest()
  expect((await decide(brief, expired.name, 'approve', expired.spec.key)).status).toBe(409)
  expect(expired.status.effect).toBeUndefined()
})

test('[P77] two approvers open the gate, and a user without the verb is refused', async () => {
  const shop = await openAwaiting({}, { minApprovals: 2 })
  const [ann, eve, bob] = await Promise.all([
    openUser(server.kube, shop.namespace, 'ann', [{ verb: 'approve', ...PROMOTIONS }]),
    openUser(server.kube, shop.namespace, 'eve', [{ verb: 'get', ...PROMOTIONS }]),
    openUser(server.kube, shop.namespace, 'bob', [{ verb: 'approve', ...PROMOTIONS }]),
  ])
  const { name, spec } = await shop.newest()
  const path = `/promotions/${shop.namespace}/${name}/decision`
  const approve = async (bearer: Record<string, string>) => {
    const { status, text } = await post(path, JSON.stringify({ decision: 'approve', key: spec.key }), bearer)
    return [status, status === 200 ? JSON.parse(text) : null]
  }
  const counts = (approvals: number) => [200, { approvals, required: 2 }]
  expect(await approve(ann.bearer)).toEqual(counts(1))
  expect(await approve(ann.bearer)).toEqual(counts(1))
  expect(await shop.phases()).toEqual(['1 prod 5.0.0 AwaitingApproval'])
  expect(await approve(eve.bearer)).toEqual([403, null])
  expect(await approve({ authorization: 'Bearer nonsense' })).toEqual([401, null])
  expect(await approve(bob.bearer)).toEqual(counts(2))
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  expect(await approve(bob.bearer)).toEqual(counts(2))
  expect((await shop.newest()).status.approvals?.map(({ subject }) => subject)).toEqual([ann.subject, bob.subject])
})

test('[P78] an old, a repeated, a moved and a body-only signature are refused', async () => {
  const shop = await openAwaiting({}, { minApprovals: 2 })
  const path = shop.approvalPath('5.0.0')
  const nowSeconds = Math.floor(Date.now() / 1000)
  expect((await postSigned(path, '', { atSeconds: nowSeconds - 301 })).status).toBe(401)
  const headers = sign('POST', path)
  expect((await send(hooks, 'POST', path, { headers })).status).toBe(202)
  expect((await send(hooks, 'POST', path, { headers })).status).toBe(409)
  // Another process knows the nonce too.
  expect((await send(await openSecond({}), 'POST', path, { headers })).status).toBe(409)
  expect((await send(hooks, 'POST', path, { headers: sign('POST', shop.approvalPath('6.0.0')) })).status).toBe(401)
  expect((await send(hooks, 'POST', path, { headers: signBody('') })).status).toBe(401)
})

test('[X22] a forged, moved or replayed signature is refused and changes nothing', async () => {
  const shop = await openAwaiting({}, { minApprovals: 2 })
  const other = await openAwaiting({}, { minApprovals: 2 })
  const path = shop.approvalPath('5.0.0')
  const nowSeconds = Math.floor(Date.now() / 1000)
  const state = async (of: Shop) => JSON.stringify([(await of.newest()).status.approvals ?? [], await of.phases()])
  const before = [await state(shop), await state(other)]
  const headers = sign('POST', path, { body: 'x' })
  const tries: [method: string, path: string, more: { body?: string; headers: Record<string, string> }][] = [
    ['POST', other.approvalPath('5.0.0'), { body: 'x', headers }],
    ['POST', `${path}?force=true`, { body: 'x', headers }],
    ['POST', path, { body: 'y', headers }],
    ['POST', path, { body: 'x', headers: { ...headers, 'x-approver': 'ann' } }],
    ['POST', path, { body: 'x', headers: { ...headers, 'x-signature-nonce': 'f'.repeat(32) } }],
    ['POST', path, { body: 'x', headers: sign('PUT', path, { body: 'x' }) }],
    ['POST', path, { body: 'x', headers: sign('POST', path, { body: 'x', key: 'another-key' }) }],
    ['POST', path, { headers: sign('POST', path, { atSeconds: nowSeconds - 330 }) }],
    ['POST', path, { headers: sign('POST', path, { atSeconds: nowSeconds + 330 }) }],
    ['POST', path, { body: 'x', headers: signBody('x') }],
    ['POST', path, { body: 'x', headers: {} }],
  ]
  for (const [method, target, more] of tries) expect((await send(hooks, method, target, more)).status, `${target} ${more.body}`).toBe(401)
  expect((await send(hooks, 'PUT', path, { body: 'x', headers })).status).toBe(405)
  expect([await state(shop), await state(other)]).toEqual(before)

  expect((await send(hooks, 'POST', path, { body: 'x', headers })).status).toBe(202)
  const accepted = await state(shop)
  expect(accepted).not.toBe(before[0])
  // The nonce is stored in the cluster: another replica, and a process that starts later, know it.
  for (const replica of [hooks, await openSecond({}), await openSecond({})])
    expect((await send(replica, 'POST', path, { body: 'x', headers })).status).toBe(409)
  const rejection = JSON.stringify({ decision: 'reject', key: (await shop.newest()).spec.key })
  const bob = await openUser(server.kube, shop.namespace, 'bob', [{ verb: 'approve', ...PROMOTIONS }])
  const decide = `/promotions/${shop.namespace}/${(await shop.newest()).name}/decision`
  expect((await post(decide, rejection, bob.bearer)).status).toBe(200)
  await shop.waitForPhase('1 prod 5.0.0 Rejected')
  const rejected = await state(shop)
  expect((await send(hooks, 'POST', path, { body: 'x', headers })).status).toBe(409)
  expect(await state(shop)).toBe(rejected)
})

test('[P79] the fourth call of a client is refused, and other clients pass', async () => {
  const limited = await openSecond({ rateLimit: { calls: 3, windowMs: 30_000 } })
  const path = '/wake/default/absent'
  const from = (address: string, headers = {}) => sendFrom(limited, address, path, headers)
  expect([await from('127.0.0.1'), await from('127.0.0.1'), await from('127.0.0.1')]).toEqual([404, 404, 404])
  const refused = await send(limited, 'POST', path)
  expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true])
  expect(await from('127.0.0.2')).toBe(404)
  expect(await from('127.0.0.1', { 'x-forwarded-for': '198.51.100.1' })).toBe(429)
  const brief = await openSecond({ rateLimit: { calls: 1, windowMs: 50 } })
  expect(await sendFrom(brief, '127.0.0.1', path)).toBe(404)
  await waitFor('the next window', async () => (await sendFrom(brief, '127.0.0.1', path)) === 404)
})

test('a rollback starts a run, holds the pipeline and is listed and explained', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { notification: {} } } })
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  await shop.move('prod', '5.0.0')
  await shop.waitForPhase('1 prod 5.0.0 Succeeded')
  const verbs = ['promote', 'get'].map((verb) => ({ verb, ...PIPELINES }))
  const ann = await openUser(server.kube, shop.namespace, 'ann', [...verbs, { verb: 'get', ...PROMOTIONS }])
  const runs = `/pipelines/${shop.namespace}/${shop.name}/runs`
  const order = (more: object) => JSON.stringify({ revision: '4.0.0', kind: 'rollback', environments: ['prod'], ...more })
  expect((await post(runs, order({}))).status).toBe(401)
  expect((await post(runs, order({ environments: ['moon'] }), ann.bearer)).status).toBe(422)
  const started = await post(runs, order({}), ann.bearer)
  expect([started.status, JSON.parse(started.text).number]).toEqual([201, 2])
  await shop.waitForPhase('2 prod 4.0.0 Applied')
  await shop.waitForPending('Held')
  const { status, annotations } = await shop.read()
  expect(status.run).toMatchObject({ number: 2, cause: { kind: 'rollback', actor: ann.subject }, scope: ['prod'] })
  expect(annotations['pipelines.brokkr.io/hold']).toBe('true')
  const read = async (path: string) => JSON.parse((await send(hooks, 'GET', path, { headers: ann.bearer })).text)
  // The caches of the hooks follow the API server.
  await waitFor('the explanation', async () => (await read(`/pipelines/${shop.namespace}/${shop.name}/explain`)).pending?.reason === 'Held')
  const explained = await read(`/pipelines/${shop.namespace}/${shop.name}/explain`)
  expect(explained).toMatchObject({ held: true, next: { do: 'nothing' }, run: { number: 2 } })
  expect(await read(`/pipelines?namespace=${shop.namespace}`)).toMatchObject([{ kind: 'Pipeline', metadata: { name: shop.name } }])
  const path = `/promotions?namespace=${shop.namespace}&pipeline=${shop.name}`
  await waitFor('the list', async () => (await read(`${path}&phase=Applied`))[0]?.spec.run === 2)
  const first = await send(hooks, 'GET', `${path}&limit=1`, { headers: ann.bearer })
  const second = await send(hooks, 'GET', `${path}&limit=1&cursor=${first.headers.get('x-next-cursor')}`, { headers: ann.bearer })
  const seen = [first, second].flatMap(({ text }) => JSON.parse(text)).map(({ spec }) => Number(spec.run))
  expect(seen.toSorted((a, b) => a - b)).toEqual([1, 2])
  expect((await send(hooks, 'GET', '/pipelines', { headers: ann.bearer })).status).toBe(403)
})

test('an explanation with diff=1 shows the change that would be committed', async () => {
  const shop = await openAwaiting()
  const ann = await openUser(server.kube, shop.namespace, 'ann', [{ verb: 'get', ...PIPELINES }])
  const { status, text } = await send(hooks, 'GET', `/pipelines/${shop.namespace}/${shop.name}/explain?diff=1`, { headers: ann.bearer })
  const { diff } = JSON.parse(text) as { diff: string }
  expect([status, diff.split('\n').filter((line) => /^[+-] /.test(line)).length]).toEqual([200, 2])
  expect(diff).toContain(`+++ b/${shop.namespace}.yaml`)
  expect(diff).toMatch(/^\+ +tag: 5\.0\.0/m)
  expect((await shop.newest()).status.effect).toBeUndefined()
})

test('a user aborts an open promotion, then the next series is made by a retry', async () => {
  const shop = await openAwaiting()
  const before = await shop.newest()
  const path = `/promotions/${shop.namespace}/${before.name}`
  expect((await postSigned(`${path}/retry`)).status).toBe(409)
  expect((await postSigned(`${path}/abort`)).status).toBe(202)
  await shop.waitForPhase('1 prod 5.0.0 Aborted')
  expect((await postSigned(`${path}/abort`)).status).toBe(409)
  const retried = await postSigned(`${path}/retry`)
  expect([retried.status, JSON.parse(retried.text).series]).toEqual([201, 2])
  expect((await postSigned(`${path}/retry`)).status).toBe(409)
  const next = (await shop.promotions()).find(({ spec }) => spec.series === 2)
  expect(next?.spec.key).not.toBe(before.spec.key)
})

test('a vouching key names the person, and the key of a pipeline may not', async () => {
  const shop = await openAwaiting({}, { approvers: ['user:ann'] })
  const { name, spec } = await shop.newest()
  const path = `/promotions/${shop.namespace}/${name}/decision`
  const body = JSON.stringify({ decision: 'approve', key: spec.key })
  expect((await postSigned(path, body, { approver: 'ann', key: KEY })).status).toBe(403)
  expect((await postSigned(path, body, { key: VOUCHING_KEY })).status).toBe(401)
  expect((await postSigned(path, body, { approver: 'bob', key: VOUCHING_KEY })).status).toBe(403)
  expect((await postSigned(path, body, { approver: 'ann', key: VOUCHING_KEY })).status).toBe(200)
  await shop.waitForPhase('1 prod 5.0.0 Applied')
})

test('[P64] a retry of an Errored promotion makes the next series with another key and branch', async () => {
  const faults = forges.failing.forge.faults.splice(0, Infinity, { route: /^POST .*pulls$/, kind: 'status', status: 500 })
  onTestFinished(() => void forges.failing.forge.faults.splice(0, Infinity, ...faults))
  const shop = await openShop(server, forges, {
    policy: { attempts: 1 },
    promotion: { strategy: { 'pull-request': forges.failingPullRequest(), secretRef } },
  })
  await shop.waitForPhase('1 prod 5.0.0 Errored')
  const first = await shop.newest()
  expect(first.status.effect?.branch).toMatch(new RegExp(`/1-${first.spec.key.slice(0, 8)}$`))
  forges.failing.forge.faults.splice(0)
  const retried = await postSigned(`/promotions/${shop.namespace}/${first.name}/retry`)
  expect([retried.status, JSON.parse(retried.text).series]).toEqual([201, 2])
  await shop.waitForPhases('1 prod 5.0.0 Errored', '1 prod 5.0.0 Applied')
  const second = await shop.newest()
  expect([second.spec.series, second.spec.key === first.spec.key]).toEqual([2, false])
  expect(second.status.effect?.branch).toMatch(new RegExp(`/1-${second.spec.key.slice(0, 8)}$`))
  const heads = forges.failing.forge.pulls.map(({ head }) => head)
  expect(heads.filter((head) => head.includes(`/${shop.namespace}/`))).toEqual([second.status.effect?.branch])
  expect(await forges.failing.repository.tip(second.status.effect!.branch!)).not.toBeNull()
})

test('a retry over a protected hotfix needs an approval again', async () => {
  const shop = await openShop(server, forges, { policy: { hotfix: 'Protect' }, promotion: { strategy: { notification: {}, secretRef } } })
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  await shop.move('prod', '5.0.0')
  await shop.waitForPhase('1 prod 5.0.0 Succeeded')
  await shop.move('prod', 'hotfix')
  await shop.waitForPending('Diverged')
  await shop.move('dev', '6.0.0')
  await shop.waitForPhase('2 prod 6.0.0 AwaitingApproval')
  const { name, spec } = await shop.newest()
  const path = `/promotions/${shop.namespace}/${name}`
  expect((await postSigned(`${path}/decision`, JSON.stringify({ decision: 'reject', key: spec.key }))).status).toBe(200)
  await shop.waitForPhase('2 prod 6.0.0 Rejected')
  expect((await postSigned(`${path}/retry`)).status).toBe(201)
  await shop.waitForPhases('1 prod 5.0.0 Succeeded', '2 prod 6.0.0 Rejected', '2 prod 6.0.0 AwaitingApproval')
})

test('a run that a user starts is not replaced by what the first environment runs already', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { notification: {}, secretRef } } })
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  const started = await postSigned(
    `/pipelines/${shop.namespace}/${shop.name}/runs`,
    JSON.stringify({ revision: '4.5.0', kind: 'manual', environments: ['prod'] }),
  )
  expect([started.status, JSON.parse(started.text).number]).toEqual([201, 2])
  await shop.waitForPhase('2 prod 4.5.0 Applied')
  for (let count = 0; count < 20; count++) {
    controller.wake(shop.key)
    await controller.whenIdle()
  }
  expect((await shop.read()).status.run?.number).toBe(2)
  await shop.move('dev', '5.1.0')
  await shop.waitForPhase('3 prod 5.1.0 Applied')
})

test('a repeated request with an Idempotency-Key starts one run, also after a newer one', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { notification: {}, secretRef } } })
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  const path = `/pipelines/${shop.namespace}/${shop.name}/runs`
  const start = async (key: string, revision = '4.5.0') => {
    const body = JSON.stringify({ revision, kind: 'rollback', environments: ['prod'] })
    const { status, text } = await send(hooks, 'POST', path, { body, headers: { ...sign('POST', path, { body }), 'idempotency-key': key } })
    return [status, status === 201 ? JSON.parse(text).number : text]
  }
  expect(await Promise.all([start('one'), start('one'), start('one')])).toEqual([
    [201, 2],
    [201, 2],
    [201, 2],
  ])
  expect(await start('one')).toEqual([201, 2])
  await shop.waitForPhase('2 prod 4.5.0 Applied')
  expect(await start('two', '4.6.0')).toEqual([201, 3])
  await shop.waitForPhase('3 prod 4.6.0 Applied')
  // The hold that a user removed is not set again by a late repetition.
  await shop.patch({ metadata: { annotations: { 'pipelines.brokkr.io/hold': null } } })
  await shop.waitForPhase('4 prod 5.0.0 Applied')
  expect(await start('one')).toEqual([201, 2])
  const { status, annotations } = await shop.read()
  expect([status.run?.number, annotations['pipelines.brokkr.io/hold']]).toEqual([4, undefined])
  expect(await start('\u00e9')).toEqual([400, expect.stringContaining('Idempotency-Key')])
})

test('an Idempotency-Key belongs to one caller and one body', async () => {
  const shop = await openShop(server, forges, { promotion: { strategy: { notification: {}, secretRef } } })
  await shop.waitForPhase('1 prod 5.0.0 Applied')
  const path = `/pipelines/${shop.namespace}/${shop.name}/runs`
  const promote = { verb: 'promote', group: 'pipelines.weave.works', resource: 'pipelines' }
  const start = async (order: object, identify: (body: string) => Record<string, string>) => {
    const body = JSON.stringify({ kind: 'manual', environments: ['prod'], ...order })
    const { status, text } = await send(hooks, 'POST', path, { body, headers: { ...identify(body), 'idempotency-key': 'one' } })
    return [status, status === 201 ? JSON.parse(text).number : text]
  }
  const byKey = (body: string) => sign('POST', path, { body })
  expect(await start({ revision: '4.5.0' }, byKey)).toEqual([201, 2])
  const reused = [422, expect.stringContaining('Idempotency-Key was used')]
  for (const order of [{ revision: '4.6.0' }, { revision: '4.5.0', kind: 'rollback' }, { revision: '4.5.0', environments: [] }])
    expect(await start(order, byKey)).toEqual(reused)
  expect((await shop.read()).annotations['pipelines.brokkr.io/hold']).toBeUndefined()
  await shop.waitForPhase('2 prod 4.5.0 Applied')
  // A service account that was created again under the same name is another caller.
  const { bearer } = await openUser(server.kube, shop.namespace, 'robot', [promote])
  expect(await start({ revision: '4.7.0' }, () => bearer)).toEqual([201, 3])
  await shop.waitForPhase('3 prod 4.7.0 Applied')
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', namespace: shop.namespace, name: 'robot' }
  await server.kube.delete(account)
  const again = await createToken(server.kube, account)
  expect(await start({ revision: '4.7.0' }, () => again)).toEqual([201, 4])
  await shop.waitForPhase('4 prod 4.7.0 Applied')
  // A run that another one replaced keeps its key.
  expect(await start({ revision: '4.6.0' }, byKey)).toEqual(reused)
  expect(await start({ revision: '4.5.0' }, byKey)).toEqual([201, 2])
})

test('a caller without an identity does not learn what exists', async () => {
  for (const path of ['/promotions/x/absent/decision', '/promotions/x/absent/retry', '/pipelines/x/absent/runs'])
    expect((await post(path, '{}')).status).toBe(401)
  expect((await send(hooks, 'GET', '/pipelines/x/absent/explain')).status).toBe(401)
})
