// A subscription written by hand, for tests that look at what is enqueued and not at how it is delivered: nobody can open its address.
import { randomUUID } from 'node:crypto'

export interface HasSql {
  sql(text: string, values?: unknown[]): Promise<unknown>
}

/** Its id. */
export async function subscribe(world: HasSql, eventTypes: readonly string[], filters: object | null = null): Promise<string> {
  const id = randomUUID()
  await world.sql(
    `insert into webhook_subscriptions (id, name, url_sealed, secret_sealed, event_types, filters) values ($1, 'by hand', '', '', $2, $3)`,
    [id, eventTypes, filters],
  )
  return id
}
