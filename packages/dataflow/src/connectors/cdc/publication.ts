// Publication of a change-capture flow: created if missing, and checked so that every listed table is published under its own name. Without
// publish_via_partition_root the server publishes rows of a partitioned table under the names of its partitions.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type pg from 'pg'
import { ConnectorError } from '../connector.ts'
import { commaSeparated, quoteName, quoteTable } from '../postgresql/sql.ts'
import type { CapturedTable } from './tables.ts'

type Config = Pick<PostgresqlCdcSource, 'createPublicationIfNotExists'>

/** Maximum number of changes: create it or add tables, and set publish_via_partition_root. More means that another session changes it. */
const stepsMax = 3

export interface Publication {
  readonly isViaRoot: boolean
  /** Full names of the published tables. */
  readonly tables: readonly string[]
}
export type PublicationStep =
  | { readonly do: 'nothing' }
  | { readonly do: 'create' | 'add'; readonly tables: readonly string[] }
  | { readonly do: 'publishViaRoot' }
  | { readonly do: 'refuse'; readonly message: string }

/** unlisted: published tables that the flow does not list · added: listed tables that were not published before. */
export async function ensurePublication(
  client: pg.Client,
  name: string,
  config: Config,
  tables: readonly CapturedTable[],
): Promise<{ readonly unlisted: readonly string[]; readonly added: readonly string[] }> {
  const addedTables: string[] = []
  for (let steps = 0; steps <= stepsMax; steps += 1) {
    const publication = await readPublication(client, name)
    const step = planPublication(name, publication, config, tables)
    if (step.do === 'nothing')
      return { unlisted: publication!.tables.filter((published) => !tables.some((table) => table.name === published)), added: addedTables }
    if (step.do === 'refuse') throw new ConnectorError({ class: 'config', type: 'unknown' }, step.message)
    await client.query(buildStatement(name, step))
    if (step.do === 'add') addedTables.push(...step.tables)
  }
  throw new ConnectorError({ class: 'transient', type: 'transient' }, `publication ${name} is being changed by another session`)
}

/** `createPublicationIfNotExists` also permits ALTER. */
function planPublication(
  name: string,
  publication: Publication | undefined,
  { createPublicationIfNotExists: mayChange }: Config,
  tables: readonly CapturedTable[],
): PublicationStep {
  const refuse = (message: string): PublicationStep => ({ do: 'refuse', message })
  if (publication === undefined) {
    if (!mayChange) return refuse(`publication ${name} does not exist, and createPublicationIfNotExists is off`)
    return { do: 'create', tables: tables.map((table) => table.name) }
  }
  const partitioned = tables.find(({ isPartitioned }) => isPartitioned)
  if (partitioned !== undefined && !publication.isViaRoot) {
    if (mayChange) return { do: 'publishViaRoot' }
    return refuse(
      `publication ${name} publishes the rows of ${partitioned.name} under the names of its partitions: ` +
        `alter publication ${quoteName(name)} set (publish_via_partition_root = true)`,
    )
  }
  const published = new Set(publication.tables)
  for (const table of tables) {
    const root = table.ancestors.find((ancestor) => published.has(ancestor))
    if (root !== undefined)
      return refuse(`publication ${name} publishes the rows of ${table.name} as ${root}: list ${root}, or use another publication`)
  }
  const missingTables = tables.filter((table) => !published.has(table.name)).map((table) => table.name)
  if (missingTables.length === 0) return { do: 'nothing' }
  return mayChange
    ? { do: 'add', tables: missingTables }
    : refuse(`publication ${name} lacks ${missingTables.join(', ')}; add them, or set createPublicationIfNotExists`)
}

function buildStatement(name: string, step: Exclude<PublicationStep, { do: 'nothing' | 'refuse' }>): string {
  if (step.do === 'publishViaRoot') return `alter publication ${quoteName(name)} set (publish_via_partition_root = true)`
  const list = commaSeparated(step.tables.map(quoteTable))
  if (step.do === 'add') return `alter publication ${quoteName(name)} add table ${list}`
  return `create publication ${quoteName(name)} for table ${list} with (publish_via_partition_root = true)`
}

async function readPublication(client: pg.Client, name: string): Promise<Publication | undefined> {
  const result = await client.query<{ viaroot: string; tables: string }>({
    text: `select pubviaroot::text as viaroot,
      (select coalesce(json_agg(schemaname || '.' || tablename), '[]')::text from pg_publication_tables t where t.pubname = p.pubname) as tables
      from pg_publication p where pubname = $1`,
    values: [name],
  })
  const row = result.rows[0]
  return row === undefined ? undefined : { isViaRoot: row.viaroot === 'true', tables: JSON.parse(row.tables) as string[] }
}
