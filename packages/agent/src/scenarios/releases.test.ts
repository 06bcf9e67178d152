// Two processes of adjacent releases on one database: the next one says more than this one knows, and its migrations have run.
// long: two releases of the broker side by side
import { type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { startBrokerProxy } from '@brokkr/testing/faults/broker-proxy.ts'
import { startSwitchProxy } from '@brokkr/testing/faults/switch-proxy.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { followBroker } from '../test-parts/real-follow.ts'
import { closeAfter } from '../test-parts/scripted-broker.ts'

let world: FeedWorld
let other: TestBroker
beforeAll(async () => {
  world = await feedWorld({ BROKKR__FEED__PING_SECONDS: '0.2' })
  other = await world.broker.sibling({ BROKKR__FEED__STREAM_LIFE_SECONDS: '[2, 3]' })
  return () => Promise.all([world.broker.kill(), other.kill()])
})
const placeOf = ({ url }: { url: string }) => ({ host: '127.0.0.1', port: Number(new URL(url).port) })

const asText = (map: ReadonlyMap<string, { rev: number; objectId: string | null }>) =>
  [...map]
    .map(([id, { rev, objectId }]) => `${id} ${rev} ${objectId}`)
    .toSorted()
    .join()

/** The next release: frames of types and with fields that nobody knows here, answers with fields that nobody knows. */
async function nextRelease(): Promise<{ url: string; close(): Promise<void> }> {
  const proxy = await startBrokerProxy(other.url)
  const more = (text: string) => text.replace(/\}$/, ',"since_next":{"deep":[1]}}')
  proxy.break(({ path }) =>
    path.endsWith('/stream')
      ? { do: 'rewrite', line: (line) => `{"type":"weather","of":"the next release"}\n${more(line)}` }
      : { do: 'change', answer: (whole) => ({ ...whole, body: whole.body.startsWith('{') ? more(whole.body) : whole.body }) },
  )
  return proxy
}

/** What a migration of the next release adds to everything that a stream is made from. */
async function expandSchema(): Promise<void> {
  const tables = ['change_log', 'feed_state', 'feed_marks', 'stacks', 'deployment_objects', 'agents', 'agent_targets', 'agent_stack_status']
  for (const table of tables) await world.sql(`alter table ${table} add column since_next text default 'x'`)
}

test('[S48] adjacent releases accept frames and cursors of each other', async () => {
  const label = unique('l')
  const [stack, moving] = [await world.stack([label]), await world.stack([label])]
  const agent = await world.agent([label])
  const later = await nextRelease()
  const address = await startSwitchProxy({ target: placeOf(world.broker) })
  closeAfter(() => Promise.all([later.close(), address.close()]).then(() => undefined))
  const followed = await followBroker(address.url, agent, { digestMs: 500 })
  await waitFor('a proven list', () => followed.verified.length > 0 && followed.follow.state.cursor !== null)
  const checks = async (result: string) =>
    Number(
      new RegExp(`digest_checks_total\\{result="${result}"\\} (\\d+)`).exec(await (await fetch(`${other.url}/metrics`)).text())?.[1] ?? 0,
    )
  const asWanted = async () => {
    const wanted = asText(await world.wanted(agent))
    await waitFor('what the database says', () => asText(followed.wanted()) === wanted, { onTimeout: () => asText(followed.wanted()) })
  }
  for (let move = 0; move < 4; move += 1) {
    const before = await checks('match')
    address.switchTo(placeOf(move % 2 === 0 ? later : world.broker))
    // A put, a del and a put again: each release sends each of them.
    await world.submit(stack.id, `move ${move}`)
    await world.tenant.client.stacksRemoveLabel({ params: { id: moving.id, label } })
    await asWanted()
    await world.tenant.client.stacksAddLabel({ params: { id: moving.id }, body: label })
    await asWanted()
    if (move % 2 === 0) await waitFor('a check there', async () => (await checks('match')) > before)
    if (move === 1) await expandSchema()
  }
  // Only the first stream was a list; every move resumed, whoever had issued the cursor.
  expect(followed.verified).toHaveLength(1)
  expect([await checks('mismatch'), await followed.ends('broken')]).toEqual([0, 0])
  await followed.stop()

  // Each kind of cursor of each of them opens a resume at the other one.
  const follow = (url: string, cursor?: string): Promise<StreamReader> =>
    readStream(url, { agentId: agent.agent.id, pak: agent.pak, ...(cursor === undefined ? {} : { cursor }) })
  for (const [from, to] of [
    [world.broker.url, later.url],
    [later.url, world.broker.url],
  ] as const) {
    for (const cursor of await cursorsOf(await follow(from))) {
      expect(Buffer.from(cursor.split('.')[0]!, 'base64url').toString()).toMatch(/^1\|/)
      const resumed = await follow(to, cursor)
      expect(await resumed.frame('hello')).toMatchObject({ mode: 'resume', protocol: 1 })
      await resumed.frame('bookmark')
      expect(resumed.frames.some(({ type }) => type === 'snapshot_begin')).toBe(false)
      resumed.close()
    }
  }

  // An agent of the next release says more than this broker knows, and is understood.
  const cursor = followed.follow.state.cursor!
  const headers = { authorization: `Bearer ${agent.pak}`, 'user-agent': 'brokkr-agent/99.0.0', 'content-type': 'application/json' }
  const asked = await fetch(`${world.broker.url}/api/v1/agents/${agent.agent.id}/stream?cursor=${cursor}&flavour=next&wait=0.1s`, {
    headers,
  })
  expect([asked.status, (await asked.text()).includes('"mode":"resume"')]).toEqual([200, true])
  const check = { cursor, ...followed.follow.state.desired.summary(), more: 1 }
  const body = JSON.stringify({ session: 1, n: 1, stacks: [], mood: 'good', check })
  const reported = await fetch(`${world.broker.url}/api/v1/agents/${agent.agent.id}/status`, { method: 'POST', headers, body })
  expect([reported.status, ((await reported.json()) as { check: string }).check]).toEqual([200, 'match'])
})

/** Of the end of a list, of a bookmark and, where streams are short, of a bye. */
async function cursorsOf(stream: StreamReader): Promise<string[]> {
  const { cursor: ofEnd } = await stream.frame('snapshot_end')
  const { cursor: ofBookmark } = await stream.frame('bookmark')
  const { lifetime_ms } = await stream.frame('hello')
  const ofBye = lifetime_ms < 10_000 ? [(await stream.frame('bye')).cursor!] : []
  stream.close()
  return [ofEnd, ofBookmark, ...ofBye]
}
