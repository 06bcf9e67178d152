import { createHash, randomBytes } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { beforeAll, expect, test } from 'vitest'
import { systemActor } from '../../audit/rules.ts'
import { createGenerator } from '../../generators/actions/generators.ts'
import { createSeal } from '../../seal.ts'
import { createStack } from '../../stacks/actions/stacks.ts'
import { freshSubscriptions, type SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { submitDeploymentObject } from './submit-deployment-object.ts'

const actor = { ...systemActor, kind: 'admin' as const }
let databases: Database[]
let deps: { sql: Database; seal: ReturnType<typeof createSeal>; subscriptionCache: SubscriptionCache; wakeFeed: () => void }[]
let stackId: string
beforeAll(async () => {
  const { url } = await database()
  // Two pools stand for two brokers on one database.
  databases = [0, 1].map(() => openDatabase({ url, schema: 'public', poolSize: 8 }))
  const seal = createSeal([randomBytes(32)])
  deps = databases.map((sql) => ({ sql, seal, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }))
  const { generator } = await createGenerator(deps[0]!, { name: 'g', description: null, actor })
  stackId = (
    await createStack(deps[0]!, {
      name: 's',
      description: null,
      generatorId: generator.id,
      labels: [],
      annotations: {},
      drift: 'heal',
      actor,
    })
  ).id
  return () => Promise.all(databases.map((one) => one.close()))
})
const submit = (yamlContent: string, expectedSequenceId?: number, broker = 0) =>
  submitDeploymentObject(deps[broker]!, { stackId, yamlContent, isDeletionMarker: false, expectedSequenceId, actor })

test('two brokers assign sequence numbers in commit order under parallel load', async () => {
  const client = await databases[0]!.connect()
  // Number order is commit order: whenever somebody looks, all numbers up to the highest are there.
  const over = new AbortController()
  const looking = (async () => {
    const gaps: unknown[] = []
    while (!over.signal.aborted) {
      const { rows } = await client.query(`select count(*), max(sequence_id) from deployment_objects having count(*) <> max(sequence_id)`)
      gaps.push(...rows)
    }
    return gaps
  })()
  const made = await Promise.all(Array.from({ length: 200 }, (_, n) => submit(`n: ${n}`, undefined, n % 2)))
  over.abort()
  expect(await looking).toEqual([])
  expect(made.map(({ sequence_id }) => sequence_id).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, n) => n + 1))
  const { rows } = await client.query<{ numbers: string; changes: string; deeds: string }>(
    `select count(*) as numbers, count(distinct xid) filter (where xid > '0') as changes, (select count(*) from audit_logs where action = 'deployment.created') as deeds
     from deployment_objects`,
  )
  await client.end()
  expect(rows[0]).toEqual({ numbers: 200, changes: 200, deeds: 200 })
})

test('the checksum covers the exact manifest, and the row has no plain text', async () => {
  const text = 'password: CANARY-hunter2\r\n'
  const object = await submit(text)
  expect(object).toMatchObject({ yaml_content: text, yaml_checksum: createHash('sha256').update(text).digest('hex') })
  const client = await databases[0]!.connect()
  const { rows } = await client.query<{ hits: string }>(
    `select count(*) as hits from deployment_objects where id = $1 and position('CANARY'::bytea in yaml_sealed) > 0`,
    [object.id],
  )
  await client.end()
  expect(rows[0]?.hits).toBe(0)
})

test('a submission with another expected head is refused with the current one', async () => {
  const head = await submit('a: 1')
  await expect(submit('b: 2', head.sequence_id - 1)).rejects.toMatchObject({
    code: 'stack_moved',
    details: { sequence_id: head.sequence_id },
  })
  expect((await submit('b: 2', head.sequence_id)).sequence_id).toBe(head.sequence_id + 1)
})

test('a stack that does not exist is not found', async () => {
  const nowhere = {
    stackId: '0a000000-0000-4000-8000-000000000001',
    yamlContent: '',
    isDeletionMarker: true,
    expectedSequenceId: undefined,
    actor,
  }
  await expect(submitDeploymentObject(deps[0]!, nowhere)).rejects.toMatchObject({ code: 'stack_not_found' })
})
