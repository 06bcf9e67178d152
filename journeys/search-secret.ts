// Looks for a secret wherever a broker leaves something: as it is, and as it looks in base64, hex, a URL or JSON.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'

export const formsOf = (secret: string): string[] => {
  // Base64 of a text that begins anywhere: of the three ways its bytes can fall, what does not depend on the neighbours.
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]).toString('base64')
    return text.slice(before === 0 ? 0 : 4, -4)
  })
  return [...new Set([secret, ...base64, Buffer.from(secret).toString('hex'), encodeURIComponent(secret)])]
}

/** Names of the places that hold one of the secrets in any form. */
export function placesWith(secrets: readonly string[], places: Iterable<readonly [name: string, content: string | Buffer]>): string[] {
  const forms = secrets.flatMap(formsOf)
  return [...places].flatMap(([name, content]) => {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content
    return forms.some((form) => bytes.includes(form)) ? [name] : []
  })
}

/** Every file below a folder, whatever it is; what goes away meanwhile is left out. */
export function* filesBelow(folder: string): Generator<readonly [string, Buffer]> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    try {
      const kind = statSync(path)
      if (kind.isDirectory()) yield* filesBelow(path)
      else if (kind.isFile()) yield [path, readFileSync(path)]
    } catch {
      // Gone between two looks, or a socket.
    }
  }
}

/** Every row of every table as text, as a dump would have it. */
export async function dumpOf(url: string): Promise<[string, string][]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  const dump: [string, string][] = []
  for (const { name } of tables) {
    const { rows } = await client.query<{ row: string }>(`select t::text as row from ${name} t`)
    dump.push([`table ${name}`, rows.map(({ row }) => row).join('\n')])
  }
  await client.end()
  return dump
}
