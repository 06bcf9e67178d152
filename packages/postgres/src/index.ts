// Public surface of the package: pool, statements, transactions and query pipelining on PostgreSQL.
export { PoolExhausted, TransactionRolledBack } from './errors.ts'
export { type DatabaseObserver, PipelinedClient, toSql } from './pipelining.ts'
export { buildConnectionConfig, type Database, type DatabaseOptions, openDatabase, schemaPattern } from './pool.ts'
export {
  count,
  lookUp,
  maybe,
  type NamedStatement,
  one,
  PendingCommit,
  rows,
  type Slot,
  type Slots,
  type Sql,
  type Statement,
  type Tx,
} from './statements.ts'
export { type BatchStatement, type SentBatch, sendBatch } from './transactions.ts'
