// postgresql-cdc connector: source for the pipeline, samples for the preview without slot or publication, and removal of a slot.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import { newMessage } from '../../message/message.ts'
import type { ConnectorContext, Message, SourceConnector } from '../connector.ts'
import { connectPostgres } from '../postgresql/client.ts'
import { toPostgresError } from '../postgresql/errors.ts'
import { commaSeparated, quoteName, quoteTable } from '../postgresql/sql.ts'
import { toSnapshotChange } from './changes.ts'
import { dropSlot, readRelation } from './slot.ts'
import { CdcSource } from './source.ts'
import { readCapturedTables } from './tables.ts'

export const postgresqlCdcSource: SourceConnector<PostgresqlCdcSource> = {
  open: (config, context) => new CdcSource(config, context),
  /** Rows of the tables, as a snapshot would emit them. */
  async sample(config, context, count) {
    const client = await connectPostgres(config, context)
    try {
      const messages: Message[] = []
      for (const { name: table } of await readCapturedTables(client, config.tables)) {
        const relation = await readRelation(client, table)
        const list = commaSeparated(relation.columns.map(({ name }) => `${quoteName(name)}::text`))
        const result = await client.query<(string | null)[]>({
          text: `select ${list} from ${quoteTable(table)} limit ${count - messages.length}`,
          rowMode: 'array',
        })
        for (const row of result.rows) {
          const { text, key, metadata } = toSnapshotChange(relation, row, config, {
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
      throw toPostgresError(thrown, 'read the tables')
    } finally {
      await client.end()
    }
  },
}

/** For a deleted flow with dropSlotOnDelete. A missing slot is no error. */
export async function removeSlot(
  config: Pick<PostgresqlCdcSource, 'connectionString' | 'tls' | 'slotName'>,
  context: ConnectorContext,
): Promise<void> {
  const client = await connectPostgres(config, context)
  try {
    await dropSlot(client, config.slotName ?? '')
  } catch (thrown) {
    throw toPostgresError(thrown, `drop slot ${config.slotName ?? ''}`)
  } finally {
    await client.end()
  }
}
