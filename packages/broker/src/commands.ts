// What an operator does on the broker's database directly, without a running broker: the same settings as `brokkr broker`.
import { systemClock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config.ts'
import { createLog } from '@brokkr/runtime/log.ts'
import { brokerTable, checkBrokerConfig } from './config.ts'
import { openStore, type Store } from './open-store.ts'
import { type Resealed, reseal } from './reseal.ts'

export interface CommandInput {
  readonly env: NodeJS.ProcessEnv
}

/** `brokkr broker migrate`: brings the schema to this release and ends. */
export const migrateDatabase = (input: CommandInput): Promise<void> => withStore(input, async () => undefined)

/** `brokkr broker reseal`: everything sealed is sealed anew under broker.encryption_key. */
export const resealDatabase = (input: CommandInput): Promise<Resealed> =>
  withStore(input, ({ database, seal }) => reseal({ sql: database, seal }))

async function withStore<T>({ env }: CommandInput, work: (store: Store) => Promise<T>): Promise<T> {
  const { value } = await loadConfig({ table: brokerTable, env, ignoredSections: ['agent', 'cli'], check: checkBrokerConfig })
  // Standard output is the command's answer; what happens on the way goes beside it.
  const log = createLog({ name: 'brokkr-broker', level: 'warn', format: value.log.format, destination: process.stderr })
  const config = { ...value, database: { ...value.database, pool_size: 2 } }
  const store = await openStore({ clock: systemClock, log }, config, async () => undefined)
  try {
    return await work(store)
  } finally {
    await store.database.close()
  }
}
