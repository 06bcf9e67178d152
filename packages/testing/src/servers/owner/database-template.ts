// What every test database holds at its beginning: the broker's schema, made once per run and cloned from then on.
import { migrate } from '@brokkr/broker/schema/migrate.ts'

/** Leaves no session behind: a database with sessions cannot be cloned. */
export async function fillTemplate(url: string): Promise<void> {
  await migrate(url)
}
