// Long polled lists: they are sent in pages, so that the broker's memory does not grow with them.
// long: stores 200 MB
import { createHash, randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { toManifestContext } from '../../deployments/rules/stored-manifest.ts'
import { ask } from '../../http/server/http-call.fixture.ts'
import { createSeal } from '../../seal.ts'

let broker: TestBroker
let tenant: TestGenerator
let client: pg.Client
beforeAll(async () => {
  const db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  tenant = await createGenerator(broker)
  client = await db.connect()
  return () => Promise.all([broker.kill(), client.end()])
})

/** An agent with stacks that each have one manifest of that length. */
async function deploy(stackCount: number, bytes: number): Promise<TestAgent> {
  const agent = await createAgent(broker, { generators: [tenant] })
  const { rows } = await client.query<{ id: string }>(
    `with made as (insert into stacks (id, name, generator_id) select gen_random_uuid(), 's' || n || '-' || $1, $2 from generate_series(1, $3) n returning id)
     insert into agent_targets (id, agent_id, stack_id, by_label) select gen_random_uuid(), $4, id, true from made returning stack_id as id`,
    [unique('s'), tenant.generator.id, stackCount, agent.agent.id],
  )
  const seal = createSeal([Buffer.from(broker.encryptionKey, 'hex')])
  const text = `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  v: ${'x'.repeat(bytes)}\n`
  const checksum = createHash('sha256').update(text).digest('hex')
  for (const { id: stackId } of rows) {
    const id = randomUUID()
    await client.query(
      `with taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = $2 where id = $1 returning id, last_sequence)
       insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
       select $2, id, last_sequence, $3, $4, $5, 'admin' from taken`,
      [stackId, id, seal.seal(toManifestContext(id), text), Buffer.byteLength(text), checksum],
    )
  }
  return agent
}
const pathOf = ({ agent }: TestAgent) => `/agents/${agent.id}/target-state?mode=full` as const

/** Highest resident memory since the last reset, in MiB. */
const peakMiB = async (): Promise<number> =>
  Number(/VmHWM:\s+(\d+) kB/.exec(await readFile(`/proc/${broker.pid}/status`, 'utf8'))![1]) / 1024
const resetPeak = () => writeFile(`/proc/${broker.pid}/clear_refs`, '5')

async function readToEnd(agent: TestAgent): Promise<{ bytes: number; end: string }> {
  const headers = { authorization: `Bearer ${agent.pak}`, 'accept-encoding': 'identity' }
  const answer = await fetch(`${broker.url}/api/v1${pathOf(agent)}`, { headers })
  let [bytes, end] = [0, '']
  for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    end = String.fromCharCode(chunk.at(-1)!)
  }
  return { bytes, end }
}

test('a target state of several pages has the bytes of one list, packed or not', async () => {
  const agent = await deploy(5, 600_000)
  const whole = await ask(broker, `GET ${pathOf(agent)}`, { pak: agent.pak, headers: { 'accept-encoding': 'identity' } })
  const items = whole.json as { id: string; yaml_content: string }[]
  expect(items).toHaveLength(5)
  expect(whole.text).toBe(JSON.stringify(items))
  expect(whole.header('x-brokkr-count')).toBe('5')
  expect(whole.header('content-length')).toBeNull()
  for (const encoding of ['gzip', 'br']) {
    const packed = await ask(broker, `GET ${pathOf(agent)}`, { pak: agent.pak, headers: { 'accept-encoding': encoding } })
    expect([packed.header('content-encoding'), packed.text === whole.text]).toEqual([encoding, true])
  }
  const { pak } = await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })
  const masked = await ask(broker, `GET ${pathOf(agent)}`, { pak })
  expect([(masked.json as object[]).length, masked.text.includes('xxx')]).toEqual([5, false])
})

test('a target state with an unreadable page is truncated and does not parse', async () => {
  const agent = await deploy(5, 600_000)
  await client.query('set session_replication_role = replica')
  await client.query(
    `update deployment_objects set yaml_sealed = set_byte(yaml_sealed, 20, get_byte(yaml_sealed, 20) # 1)
     where id = (select o.id from deployment_objects o join agent_targets t on t.stack_id = o.stack_id where t.agent_id = $1 order by o.submitted_at, o.id desc limit 1)`,
    [agent.agent.id],
  )
  await client.query('set session_replication_role = origin')
  await expect(readToEnd(agent)).rejects.toThrow('terminated')
})

test('a target state of 200 MB leaves the memory of the broker flat', async () => {
  const agent = await deploy(72, 2_800_000)
  await resetPeak()
  const beforeMiB = await peakMiB()
  const { bytes, end } = await readToEnd(agent)
  expect([bytes > 200_000_000, end]).toEqual([true, ']'])
  const grownMiB = (await peakMiB()) - beforeMiB
  expect(grownMiB).toBeLessThan(200)
})
