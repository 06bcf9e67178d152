// The bare broker: fastify and pg with the very statements of ours, prepared, on a pool of the same size. No keys, no permissions,
// no checks, no sealing, no metrics, no feed: the difference to the product is the cost of these features. Change it only to make it faster.
import { createHash, randomUUID } from 'node:crypto'
import {
  agentStackStatus,
  agents,
  auditLogs,
  deploymentObjects,
  pruneApprovals,
  stacks,
  targetState,
} from '@brokkr/broker/schema/stores.ts'
import { fastify } from 'fastify'
import pg from 'pg'

const [url, port] = process.argv.slice(2) as [string, string]
const pool = new pg.Pool({ connectionString: url, max: 50, options: '-c timezone=UTC' })
const app = fastify({ logger: false })

type Named = { readonly statement: { readonly name: string; readonly text: string } }
const run = (on: pg.Pool | pg.PoolClient, { statement: { name, text } }: Named, values: unknown[]) => on.query({ name, text, values })

async function inTransaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const value = await work(client)
    await client.query('commit')
    return value
  } finally {
    client.release()
  }
}

interface ById {
  Params: { id: string }
}

app.get<ById>('/api/v1/stacks/:id', async ({ params }) => (await run(pool, stacks.get, [params.id, null])).rows[0])

/** Ours reads bytes; the driver reads text alone, and base64 three times as fast as the hex of a plain bytea. */
const readSealedStatement = {
  name: 'readSealedStatement',
  text: `select id, encode(yaml_sealed, 'base64') as sealed from deployment_objects where id = any($1::uuid[])`,
}

app.get<ById>('/api/v1/agents/:id/target-state', async ({ params }) => {
  const { rows } = await run(pool, targetState.list, [params.id])
  const ids = (rows as { id: string }[]).map((row) => row.id)
  const result = await run(pool, { statement: readSealedStatement }, [ids])
  const texts = new Map((result.rows as { id: string; sealed: string }[]).map(({ id, sealed }) => [id, sealed]))
  return rows.map((row: { id: string }) => ({ ...row, yaml_content: texts.get(row.id) }))
})

app.post<ById & { Body: Record<string, string> }>('/api/v1/agents/:id/heartbeat', async ({ params }, reply) => {
  await run(pool, agents.recordHeartbeat, [null, null, params.id, null, null])
  return reply.code(204).send()
})

/** One row and nothing else: no permission, no acknowledgment, no webhook delivery. */
const insertEvent = {
  name: 'insertEvent',
  text: `insert into agent_events (id, agent_id, deployment_object_id, stack_id, event_type, status, message)
    select $1, $2, o.id, o.stack_id, $4, $5, $6 from deployment_objects o where o.id = $3 returning *`,
}

app.post<ById & { Body: Record<string, string> }>('/api/v1/agents/:id/events', async ({ params, body }, reply) => {
  const { deployment_object_id, event_type, status, message } = body
  const { rows } = await run(pool, { statement: insertEvent }, [randomUUID(), params.id, deployment_object_id, event_type, status, message])
  return reply.code(201).send(rows[0])
})

const listAgents = { name: 'listAgents', text: 'select * from agents where deleted_at is null order by id limit 200' }

app.get('/api/v1/agents', async () => (await run(pool, { statement: listAgents }, [])).rows)

interface Status {
  session: number
  n: number
  stacks: { object_id: string }[]
}

app.post<ById & { Body: Status }>('/api/v1/agents/:id/status', async ({ params, body: { session, n, stacks: reports } }) => {
  const { rows } = await run(pool, agentStackStatus.record, [params.id, JSON.stringify(reports), session, n])
  await run(pool, pruneApprovals.markUsedByApplied, [params.id, reports.map((report) => report.object_id)])
  await run(pool, agents.touch, [params.id])
  return { accepted: rows.length, ignored: reports.length - rows.length }
})

app.post<ById & { Body: { yaml_content: string } }>('/api/v1/stacks/:id/deployment-objects', async ({ params, body }, reply) => {
  const text = body.yaml_content
  const object = await inTransaction(async (client) => {
    const id = randomUUID()
    const { rows } = await run(client, stacks.takeHead, [id, params.id])
    const { sequence_id } = rows[0] as { sequence_id: string }
    const checksum = createHash('sha256').update(text).digest('hex')
    const values = [id, params.id, sequence_id, Buffer.from(text), text.length, checksum, false, null, 'generator', null]
    const inserted = await run(client, deploymentObjects.insert, values)
    const deed = [randomUUID(), 'generator', null, 'deployment.created', 'deployment_object', id, '{}', '127.0.0.1', null]
    await run(client, auditLogs.insert, deed)
    return { ...(inserted.rows[0] as object), yaml_content: text }
  })
  return reply.code(201).send(object)
})

await app.listen({ port: Number(port), host: '127.0.0.1' })
process.stdout.write('ready\n')
