// Seals every stored secret anew under the first key of the ring, page by page, each page its own transaction: it may be
// stopped and begun again at any time. Afterwards the older keys are retired and can be taken out of the configuration.
import type { Seal } from './seal.ts'
import * as encryptionKeys from './store/encryption-keys.ts'
import * as idempotencyKeys from './store/idempotency-keys.ts'
import * as sealedWebhooks from './store/sealed-webhooks.ts'
import type { Sql } from './store/sql.ts'

export interface Resealed {
  readonly resealed: number
  /** Sealed under the first key already. */
  readonly kept: number
  /** Rows no key of the ring opens; while there are any, no key is retired. */
  readonly broken: readonly string[]
  readonly retired: number
}

/** A column that is sealed: how its rows are paged and written. Whoever adds a sealed column adds it here. */
interface SealedColumn {
  readonly table: string
  readonly column: string
  readonly page: (sql: Sql, params: { after: string; since: string | null }) => Promise<encryptionKeys.SealedRow[]>
  readonly put: (sql: Sql, params: { id: string; was: Buffer; sealed: Buffer }) => Promise<number>
}
const sealedColumns: readonly SealedColumn[] = [
  { table: 'deployment_objects', column: 'yaml_sealed', page: encryptionKeys.objectsPage, put: encryptionKeys.putObject },
  { table: 'idempotency_keys', column: 'body_sealed', page: idempotencyKeys.sealedPage, put: idempotencyKeys.putSealed },
  { table: 'webhook_subscriptions', column: 'url_sealed', page: sealedWebhooks.urlPage, put: sealedWebhooks.putUrl },
  { table: 'webhook_subscriptions', column: 'auth_sealed', page: sealedWebhooks.authPage, put: sealedWebhooks.putAuth },
  { table: 'webhook_subscriptions', column: 'secret_sealed', page: sealedWebhooks.secretPage, put: sealedWebhooks.putSecret },
  { table: 'webhook_subscriptions', column: 'old_secret_sealed', page: sealedWebhooks.oldSecretPage, put: sealedWebhooks.putOldSecret },
]

export async function reseal(deps: { sql: Sql; seal: Seal }): Promise<Resealed> {
  const { now } = await encryptionKeys.now(deps.sql, {})
  const all = await pass(deps, null)
  // Rows that were written meanwhile: none of them may be under an older key, or a broker still seals with it.
  const late = await pass(deps, now)
  if (late.resealed > 0)
    throw new Error(
      `${late.resealed} rows were sealed with an older key while this ran: restart every broker with the new key first, then reseal again`,
    )
  const isWhole = all.broken.length === 0 && late.broken.length === 0
  const retired = isWhole ? await encryptionKeys.retireOthers(deps.sql, { fingerprint: deps.seal.fingerprints[0] }) : 0
  return { ...all, broken: [...new Set([...all.broken, ...late.broken])], retired }
}

interface Passed {
  resealed: number
  kept: number
  readonly broken: string[]
}

async function pass(deps: { sql: Sql; seal: Seal }, since: string | null): Promise<Passed> {
  const passed: Passed = { resealed: 0, kept: 0, broken: [] }
  for (const column of sealedColumns) {
    for (let after = nilId; ; ) {
      const last = await resealPage(deps, column, { after, since, passed })
      if (last === null) break
      after = last
    }
  }
  return passed
}

const nilId = '00000000-0000-0000-0000-000000000000'

/** The id the page ended with; null when there was nothing left. */
async function resealPage(
  { sql, seal }: { sql: Sql; seal: Seal },
  column: SealedColumn,
  { after, since, passed }: { after: string; since: string | null; passed: Passed },
): Promise<string | null> {
  return sql.begin(async (tx) => {
    await encryptionKeys.allowReseal(tx, {})
    const rows = await column.page(tx, { after, since })
    for (const { id, sealed } of rows) {
      const place = { table: column.table, column: column.column, id }
      const outcome = seal.reseal(place, sealed)
      if (outcome === 'kept') passed.kept += 1
      else if (outcome === 'broken') passed.broken.push(`${column.table}.${column.column} ${id}`)
      else passed.resealed += await column.put(tx, { id, was: sealed, sealed: outcome })
    }
    return rows.at(-1)?.id ?? null
  })
}
