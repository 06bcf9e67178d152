// The newest dead letters of a flow, for a person: read from the place of its errors sink, without marking any.
import { DeadLetter } from '@brokkr/contract/dataflow/dead-letter.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { ConnectorContext } from '../../connectors/connector.ts'
import { sampleSource } from '../../connectors/open-connectors.ts'
import { connectPostgres } from '../../connectors/postgresql/client.ts'
import { toPostgresError } from '../../connectors/postgresql/errors.ts'
import { quoteTable } from '../../connectors/postgresql/sql.ts'
import { getPayload } from '../../message/message.ts'
import { toDeadLetterTopicConfig } from './dead-letter-topic.ts'

export interface ListedDeadLetter {
  readonly letter: DeadLetter
  /** Undefined: not replayed, or the place does not know. */
  readonly replayedAt: string | undefined
}

/** Throws for a flow without errors sink, and for a sink that cannot be read. */
export async function listDeadLetters(flow: Flow, context: ConnectorContext, count: number): Promise<ListedDeadLetter[]> {
  const sink = flow.errors?.sink
  if (sink === undefined) throw new Error('the flow has no errors sink, so it has no dead letters')
  const name = `${context.flow.namespace}/${context.flow.name}`
  if (sink.type === 'postgresql') return readTable(sink.config, name, context, count)
  if (sink.type !== 'kafka') throw new Error(`dead letters of a ${sink.type} sink are read with a client of ${sink.type}`)
  const messages = await sampleSource({ type: 'kafka', config: toDeadLetterTopicConfig(sink.config, '') }, context, count)
  const letters = messages.flatMap((message) => toListed(getPayload(message), undefined))
  return letters.filter(({ letter }) => letter.error.flow === name)
}

async function readTable(
  config: Parameters<typeof connectPostgres>[0] & { readonly table: string },
  flow: string,
  context: ConnectorContext,
  count: number,
): Promise<ListedDeadLetter[]> {
  const client = await connectPostgres(config, context)
  try {
    const { rows } = await client.query<{ letter: string; replayed: string | null }>({
      text: `select json_build_object('error', error::jsonb, 'original_message', original_message::jsonb)::text as letter, replayed_at::text as replayed
        from ${quoteTable(config.table)} where error::jsonb->>'flow' = $1 order by created_at desc, id limit $2`,
      values: [flow, count],
    })
    return rows.flatMap(({ letter, replayed }) => toListed(JSON.parse(letter), replayed ?? undefined))
  } catch (thrown) {
    throw toPostgresError(thrown, 'read the dead letters')
  } finally {
    await client.end()
  }
}

/** Other rows and messages of the place are left out. */
function toListed(value: unknown, replayedAt: string | undefined): ListedDeadLetter[] {
  const parsed = DeadLetter.safeParse(value)
  return parsed.success ? [{ letter: parsed.data, replayedAt }] : []
}
