// The bare feed: LISTEN, one statement for what changed since the last one, each line written to the sockets that follow its stack. No
// cursors that survive, no snapshots, no limits: the difference to the product is the cost of reliable delivery.
import { createServer, type ServerResponse } from 'node:http'
import { toManifestContext } from '@brokkr/broker/deployments/rules/stored-manifest.ts'
import { createSeal } from '@brokkr/broker/seal.ts'
import pg from 'pg'

const [databaseUrl, portText, encryptionKey, channel] = process.argv.slice(2) as [string, string, string, string]
const seal = createSeal([Buffer.from(encryptionKey, 'hex')])
const client = new pg.Client({ connectionString: databaseUrl })
await client.connect()
const listener = new pg.Client({ connectionString: databaseUrl })
await listener.connect()
const targets = await client.query<{ agent_id: string; stack_id: string }>('select agent_id, stack_id from agent_targets')
const stacksByAgent = Map.groupBy(targets.rows, ({ agent_id }) => agent_id)
const subscribersByStack = new Map<string, Set<ServerResponse>>()

const load = `select d.id, d.stack_id, s.name as stack_name, s.last_sequence as rev, s.drift, d.sequence_id, d.yaml_checksum, d.yaml_bytes, d.yaml_sealed, d.is_deletion_marker, c.xid
  from deployment_objects c join stacks s on s.id = c.stack_id join deployment_objects d on d.id = s.head_object_id
  where c.xid > $1::xid8 order by c.xid`
interface Row {
  id: string
  stack_id: string
  stack_name: string
  rev: string
  drift: string
  sequence_id: string
  yaml_checksum: string
  yaml_bytes: number
  yaml_sealed: Buffer
  is_deletion_marker: boolean
  xid: string
} // prettier-ignore
let after = (await client.query<{ xid: string }>('select pg_current_xact_id()::text as xid')).rows[0]!.xid
let isReading = false
let isWoken = false
async function readChanges(): Promise<void> {
  isWoken = true
  if (isReading) return
  isReading = true
  while (isWoken) {
    isWoken = false
    const { rows } = await client.query<Row>({ name: 'load', text: load, values: [after] })
    for (const row of rows) {
      after = row.xid
      const yaml_content = seal.open(toManifestContext(row.id), row.yaml_sealed)
      const object = {
        id: row.id,
        sequence_id: Number(row.sequence_id),
        is_deletion_marker: row.is_deletion_marker,
        yaml_checksum: row.yaml_checksum,
        bytes: row.yaml_bytes,
        yaml_content,
      }
      const line = Buffer.from(
        `${JSON.stringify({ type: 'put', stack_id: row.stack_id, stack_name: row.stack_name, rev: Number(row.rev), drift: row.drift, object })}\n`,
      )
      for (const response of subscribersByStack.get(row.stack_id) ?? []) response.write(line)
    }
  }
  isReading = false
}
listener.on('notification', () => void readChanges())
await listener.query(`listen ${channel}`)

createServer((request, response) => {
  const agentId = request.url!.split('/')[4]!
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  response.socket?.setNoDelay(true)
  for (const { stack_id } of stacksByAgent.get(agentId) ?? []) {
    const subscribers = subscribersByStack.get(stack_id) ?? new Set()
    subscribersByStack.set(stack_id, subscribers.add(response))
  }
  response.write('{"type":"snapshot_end","cursor":""}\n')
}).listen(Number(portText), '127.0.0.1', () => process.stdout.write('ready\n'))
