// Setting change capture back: to its beginning, to a position that the slot still has, or to a new snapshot of some tables.
import type pg from 'pg'
import { readSlot, resolveTables } from './cdc-slot.ts'
import type { CdcStanding } from './cdc-standing.ts'
import type { CdcState } from './cdc-state.ts'
import { ConnectorError, type Rewind } from './connector.ts'
import { lsnText, parseLsn } from './pgoutput.ts'

/** What the source stands at from then on; undefined: nothing was ever read. */
export async function rewound(client: pg.Client, slot: string, standing: CdcStanding, to: Rewind): Promise<CdcState | undefined> {
  if (to === 'start') return undefined
  if (typeof to === 'object' && 'resnapshot' in to) return snapshotAgain(client, slot, standing, to.resnapshot)
  if (typeof to === 'object' && 'lsn' in to) return backTo(client, slot, standing, to.lsn)
  throw refuse('a postgresql-cdc source is rewound to the start, to an lsn, or by a new snapshot of tables')
}

async function snapshotAgain(client: pg.Client, slotName: string, standing: CdcStanding, names: readonly string[]): Promise<CdcState> {
  const again = await resolveTables(client, names)
  const foreign = again.find((name) => !standing.tables.includes(name))
  if (foreign !== undefined) throw refuse(`table ${foreign} is not one of this flow`)
  const slot = await readSlot(client, slotName)
  const state = standing.state ?? standing.newState(slot?.confirmed ?? 0n)
  return { ...state, phase: 'snapshot', completed: standing.tables.filter((name) => !again.includes(name)) }
}

async function backTo(client: pg.Client, slotName: string, standing: CdcStanding, text: string): Promise<CdcState> {
  const lsn = parseLsn(text)
  const slot = await readSlot(client, slotName)
  if (slot === undefined) throw refuse(`slot ${slotName} does not exist: there is nothing to rewind to`)
  if (lsn < slot.confirmed)
    throw refuse(`the slot begins at ${lsnText(slot.confirmed)} and the server keeps nothing before it: take a new snapshot instead`)
  return { ...(standing.state ?? standing.newState(lsn)), phase: 'streaming', ackedLsn: lsn }
}

const refuse = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)
