// Rewinds change capture: to the start, to a position that the slot still retains, or to a new snapshot of some tables.
import type pg from 'pg'
import { ConnectorError, type Rewind } from '../connector.ts'
import { lsnText, parseLsn } from './pgoutput.ts'
import { readSlot } from './slot.ts'
import type { CdcState } from './state.ts'
import type { CdcStreamState } from './stream-state.ts'
import { readCapturedTables } from './tables.ts'

/** The new state; undefined: start from the beginning. */
export async function applyRewind(client: pg.Client, slot: string, standing: CdcStreamState, to: Rewind): Promise<CdcState | undefined> {
  if (to === 'start') return undefined
  if (typeof to === 'object' && 'resnapshot' in to) return snapshotAgain(client, slot, standing, to.resnapshot)
  if (typeof to === 'object' && 'lsn' in to) return backTo(client, slot, standing, to.lsn)
  throw refuse('a postgresql-cdc source is rewound to the start, to an lsn, or by a new snapshot of tables')
}

async function snapshotAgain(client: pg.Client, slotName: string, standing: CdcStreamState, names: readonly string[]): Promise<CdcState> {
  const again = (await readCapturedTables(client, names)).map(({ name }) => name)
  const foreign = again.find((name) => !standing.tables.includes(name))
  if (foreign !== undefined) throw refuse(`table ${foreign} is not one of this flow`)
  const slot = await readSlot(client, slotName)
  const state = standing.state ?? standing.newState(slot?.confirmed ?? 0n)
  return { ...state, phase: 'snapshot', completed: standing.tables.filter((name) => !again.includes(name)) }
}

async function backTo(client: pg.Client, slotName: string, standing: CdcStreamState, text: string): Promise<CdcState> {
  const lsn = parseLsn(text)
  const slot = await readSlot(client, slotName)
  if (slot === undefined) throw refuse(`slot ${slotName} does not exist: there is nothing to rewind to`)
  if (lsn < slot.confirmed)
    throw refuse(`the slot begins at ${lsnText(slot.confirmed)} and the server keeps nothing before it: take a new snapshot instead`)
  const state = standing.state ?? { ...standing.newState(lsn), completed: standing.tables }
  return { ...state, phase: 'streaming', ackedLsn: lsn }
}

const refuse = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)
