// The beginning of change capture: the slot, made where it is missing, and the rows that were there at its point.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import pg from 'pg'
import { snapshotChange } from './cdc-changes.ts'
import { cdcMessage } from './cdc-decoder.ts'
import { createSlot, readSlot } from './cdc-slot.ts'
import { beginSnapshot, snapshotRows } from './cdc-snapshot.ts'
import type { CdcStanding } from './cdc-standing.ts'
import type { CdcPosition } from './cdc-state.ts'
import { type Batch, type Budget, ConnectorError, type Message, type SourceContext } from './connector.ts'
import { type Lsn, lsnText } from './pgoutput.ts'

export interface BeginDeps {
  readonly config: PostgresqlCdcSource
  readonly context: SourceContext
  readonly client: pg.Client
  readonly standing: CdcStanding
  readonly serverVersion: number
  readonly replication: () => Promise<pg.ClientConfig>
}

/** Nothing when the stream can go on where it was. */
export async function* readBeginning(deps: BeginDeps, budget: Budget): AsyncGenerator<Batch> {
  const { config, standing } = deps
  const slot = await checkedSlot(deps)
  const isNew = slot === undefined
  if (!isNew && standing.state?.phase === 'streaming' && !standing.mustSnapshot) return
  const replication = isNew ? await replicationClient(deps) : undefined
  try {
    const made = replication === undefined ? undefined : await createSlot(replication, config.slotName ?? '', deps.serverVersion)
    const isGoingOn = !isNew && standing.state?.phase === 'snapshot' && !standing.mustSnapshot
    standing.beginEra(made?.at ?? slot?.confirmed ?? 0n, isGoingOn)
    if (config.snapshotMode === 'never') standing.finishSnapshot()
    else yield* snapshotTables(deps, made?.snapshot, budget)
  } finally {
    await replication?.end().catch(() => undefined)
  }
}

async function checkedSlot({ config, context, client, standing }: BeginDeps): Promise<{ confirmed: Lsn } | undefined> {
  const name = config.slotName ?? ''
  const slot = await readSlot(client, name)
  if (slot?.isLost === true)
    throw refuse(`slot ${name} has lost its WAL (max_slot_wal_keep_size): drop it and reset the checkpoint for a new snapshot`)
  if (slot !== undefined) return slot
  if (!config.createSlotIfNotExists) throw refuse(`slot ${name} does not exist, and createSlotIfNotExists is off`)
  if (standing.state?.phase === 'streaming')
    context.notice(
      'SlotGone',
      `slot ${name} was dropped: changes since ${lsnText(standing.state.ackedLsn)} are unknown, and a new snapshot begins`,
    )
  return undefined
}

async function* snapshotTables(deps: BeginDeps, snapshot: string | undefined, budget: Budget): AsyncGenerator<Batch> {
  const { config, context, client, standing } = deps
  await beginSnapshot(client, snapshot)
  const { era, completed, snapshotLsn } = standing.state!
  const place = { lsn: lsnText(snapshotLsn), isSnapshot: true, database: client.database ?? '' }
  let number = 0
  let last: CdcPosition | undefined
  for (const table of standing.tables.filter((name) => !completed.includes(name))) {
    await budget.room(context.signal)
    for await (const { relation, rows } of snapshotRows(client, table)) {
      const messages = rows.map((row): Message => {
        last = { e: era, l: '', n: number }
        number += 1
        return cdcMessage(snapshotChange(relation, row, config, place), last)
      })
      yield { messages }
      await budget.room(context.signal)
    }
    standing.readTable(table, last)
  }
  await client.query('commit')
  standing.readSnapshot()
}

async function replicationClient({ replication }: BeginDeps): Promise<pg.Client> {
  const client = new pg.Client(await replication())
  client.on('error', () => undefined)
  await client.connect()
  return client
}

const refuse = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)
