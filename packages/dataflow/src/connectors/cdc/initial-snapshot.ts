// Start of change capture: creates a missing slot and reads the rows that existed at its snapshot.
import { randomUUID } from 'node:crypto'
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import pg from 'pg'
import { type Batch, type Budget, ConnectorError, type Message, type SourceContext } from '../connector.ts'
import { toSnapshotChange } from './changes.ts'
import { toCdcMessage } from './decoder.ts'
import { type Lsn, lsnText } from './pgoutput.ts'
import { createSlot, readSlot } from './slot.ts'
import { beginSnapshot, snapshotRows } from './snapshot.ts'
import type { CdcPosition, CdcState } from './state.ts'
import type { CdcStreamState } from './stream-state.ts'

export interface InitialReadDeps {
  readonly config: PostgresqlCdcSource
  readonly context: SourceContext
  readonly client: pg.Client
  readonly standing: CdcStreamState
  readonly serverVersion: number
  readonly replication: () => Promise<pg.ClientConfig>
  /** Connection without a statement timeout. */
  readonly openSnapshotClient: () => Promise<pg.Client>
}

/** Yields nothing if the stream can continue. */
export async function* readInitialRows(deps: InitialReadDeps, budget: Budget): AsyncGenerator<Batch> {
  const { config, standing } = deps
  const slot = await readUsableSlot(deps)
  const addedTables = standing.addedTables
  const beginning = planInitialRead({
    hasSlot: slot !== undefined,
    phase: standing.state?.phase,
    mustSnapshot: standing.mustSnapshot,
    added: addedTables,
  })
  if (beginning === 'stream') {
    standing.forgetRemovedTables()
    return
  }
  if (beginning === 'addTables' && config.snapshotMode === 'never') {
    standing.finishSnapshot()
    return
  }
  if (beginning === 'addTables')
    deps.context.notice(
      'SnapshotOfAddedTables',
      `${addedTables.join(', ')}: added to the flow or to its publication; their rows are read before the stream continues`,
    )
  const exporter = beginning === 'newSlot' || config.snapshotMode !== 'never' ? await openReplicationClient(deps) : undefined
  try {
    const exported = exporter === undefined ? undefined : await createSlot(exporter, exportSlot(config, beginning), deps.serverVersion)
    const at = beginning === 'newSlot' ? exported!.at : slot!.confirmed
    standing.beginEra(at, beginning === 'resume' || beginning === 'addTables')
    if (config.snapshotMode === 'never') standing.finishSnapshot()
    else yield* readSnapshot(deps, { name: exported?.snapshot, imported: () => closeClient(exporter) }, budget)
  } finally {
    await closeClient(exporter)
  }
}

/** newSlot, again: all tables · resume: tables that an earlier process did not finish · addTables: tables that were added to the flow. */
type InitialRead = 'stream' | 'newSlot' | 'again' | 'resume' | 'addTables'

function planInitialRead(facts: {
  readonly hasSlot: boolean
  readonly phase: CdcState['phase'] | undefined
  readonly mustSnapshot: boolean
  readonly added: readonly string[]
}): InitialRead {
  if (!facts.hasSlot) return 'newSlot'
  if (facts.mustSnapshot || facts.phase === undefined) return 'again'
  if (facts.phase === 'snapshot') return 'resume'
  return facts.added.length > 0 ? 'addTables' : 'stream'
}

/** Creating a slot waits for all running transactions. Without it, a transaction that wrote to a table before it was published, and
 *  commits after the snapshot, would be lost. */
const exportSlot = ({ slotName = '' }: PostgresqlCdcSource, beginning: InitialRead) =>
  beginning === 'newSlot'
    ? { name: slotName, isTemporary: false }
    : { name: `brokkr_snapshot_${randomUUID().slice(0, 8)}`, isTemporary: true }

async function readUsableSlot({ config, context, client, standing }: InitialReadDeps): Promise<{ confirmed: Lsn } | undefined> {
  const name = config.slotName ?? ''
  const slot = await readSlot(client, name)
  if (slot?.isLost === true)
    throw configError(`slot ${name} has lost its WAL (max_slot_wal_keep_size): drop it and reset the checkpoint for a new snapshot`)
  if (slot !== undefined) return slot
  if (!config.createSlotIfNotExists) throw configError(`slot ${name} does not exist, and createSlotIfNotExists is off`)
  if (standing.state?.phase === 'streaming')
    context.notice(
      'SlotGone',
      `slot ${name} was dropped: changes since ${lsnText(standing.state.ackedLsn)} are lost, and a new snapshot starts`,
    )
  return undefined
}

type ExportedSnapshot = { readonly name: string | undefined; imported(): Promise<void> }

async function* readSnapshot(deps: InitialReadDeps, exported: ExportedSnapshot, budget: Budget): AsyncGenerator<Batch> {
  const client = await deps.openSnapshotClient()
  try {
    await beginSnapshot(client, exported.name, deps.serverVersion)
    await exported.imported()
    yield* snapshotTables(deps, client, budget)
    await client.query('commit')
    deps.standing.readSnapshot()
  } finally {
    await closeClient(client)
  }
}

async function* snapshotTables({ config, context, standing }: InitialReadDeps, client: pg.Client, budget: Budget): AsyncGenerator<Batch> {
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
        return toCdcMessage(toSnapshotChange(relation, row, config, place), last)
      })
      yield { messages }
      await budget.room(context.signal)
    }
    standing.readTable(table, last)
  }
}

const closeClient = (client: pg.Client | undefined): Promise<void> => client?.end().catch(() => undefined) ?? Promise.resolve()

async function openReplicationClient({ replication }: InitialReadDeps): Promise<pg.Client> {
  const client = new pg.Client(await replication())
  client.on('error', () => undefined)
  await client.connect()
  return client
}

const configError = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)
