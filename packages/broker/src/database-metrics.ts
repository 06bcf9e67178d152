// Database metrics: duration per statement, wait for a connection, and the state of the pool.
import type { Database, DatabaseObserver } from '@brokkr/postgres'
import type { FastHistogram, Metrics } from '@brokkr/runtime/metrics/metrics.ts'

const bucketsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5, 15]

export function observeDatabase(metrics: Metrics): DatabaseObserver {
  const queries = new Map<string, FastHistogram>()
  const tallyOf = (name: string) =>
    metrics.tally('brokkr_db_query_duration_seconds', 'Duration of statements by name', { name }, bucketsSeconds)
  const waits = metrics.tally('brokkr_db_wait_seconds', 'Wait for a connection from the pool', {}, bucketsSeconds)
  return {
    query: (name, ms) => {
      let tally = queries.get(name)
      if (tally === undefined) queries.set(name, (tally = tallyOf(name)))
      tally.observe(ms / 1000)
    },
    wait: (ms) => waits.observe(ms / 1000),
  }
}

export function showPool(metrics: Metrics, database: Pick<Database, 'pool'>): void {
  const connections = metrics.gauge('brokkr_db_pool', 'Number of connections in the pool and of callers that wait for one', ['state'])
  metrics.beforeScrape(() => {
    const { total, idle, waiting } = database.pool
    connections.set({ state: 'busy' }, total - idle)
    connections.set({ state: 'idle' }, idle)
    connections.set({ state: 'waiting' }, waiting)
  })
}
