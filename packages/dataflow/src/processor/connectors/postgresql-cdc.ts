// postgresql-cdc: what the pipeline opens, what the preview may look at without slot or publication, and the end of a slot.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import { newMessage } from '../message.ts'
import { snapshotChange } from './cdc-changes.ts'
import { dropSlot, readRelation, resolveTables } from './cdc-slot.ts'
import { CdcSource } from './cdc-source.ts'
import type { ConnectorContext, Message, SourceConnector } from './connector.ts'
import { connectPostgres } from './postgresql-client.ts'
import { postgresError } from './postgresql-errors.ts'
import { commaSeparated, quoted, quotedTable } from './sql.ts'

export const postgresqlCdcSource: SourceConnector<PostgresqlCdcSource> = {
  open: (config, context) => new CdcSource(config, context),
  /** Rows of the tables, as the snapshot would give them. */
  async sample(config, context, count) {
    const client = await connectPostgres(config, context)
    try {
      const messages: Message[] = []
      for (const table of await resolveTables(client, config.tables)) {
        const relation = await readRelation(client, table)
        const list = commaSeparated(relation.columns.map(({ name }) => `${quoted(name)}::text`))
        const found = await client.query<(string | null)[]>({
          text: `select ${list} from ${quotedTable(table)} limit ${count - messages.length}`,
          rowMode: 'array',
        })
        for (const row of found.rows) {
          const { text, key, metadata } = snapshotChange(relation, row, config, {
            lsn: '0/0',
            isSnapshot: true,
            database: client.database ?? '',
          })
          messages.push(
            newMessage({
              raw: Buffer.from(text),
              key: key === undefined ? undefined : Buffer.from(key),
              metadata,
              position: messages.length,
              partition: 'slot',
            }),
          )
        }
        if (messages.length >= count) break
      }
      return messages
    } catch (thrown) {
      throw postgresError(thrown, 'read the tables')
    } finally {
      await client.end()
    }
  },
}

/** For a flow that is deleted with dropSlotOnDelete. A slot that is gone already is no error. */
export async function removeSlot(
  config: Pick<PostgresqlCdcSource, 'connectionString' | 'tls' | 'slotName'>,
  context: ConnectorContext,
): Promise<void> {
  const client = await connectPostgres(config, context)
  try {
    await dropSlot(client, config.slotName ?? '')
  } catch (thrown) {
    throw postgresError(thrown, `drop slot ${config.slotName ?? ''}`)
  } finally {
    await client.end()
  }
}
