// Look-ups of calls that arrive together travel together: what one turn of the event loop asks for leaves in few writes, over few
// connections. A write and the waking of a server process cost more than the look-up itself.
import type pg from 'pg'
import { isOfServer, knows, type Named, NamedQuery, type Result, withOwnStack } from './named-query.ts'
import type { DatabaseObserver, PoolLine } from './pool-line.ts'

/** So many at most wait for each other; the next ones take another connection. */
const tripMax = 8

export function createSharedTrips(line: PoolLine, observe: DatabaseObserver | undefined): (named: Named) => Promise<Result> {
  let waiting: NamedQuery[] = []
  const leave = () => {
    const all = waiting
    waiting = []
    for (let at = 0; at < all.length; at += tripMax) void travel(line, all.slice(at, at + tripMax))
  }
  return async (named) => {
    const query = new NamedQuery(named)
    const startedMs = performance.now()
    if (waiting.push(query) === 1) setImmediate(leave)
    try {
      return await query.result
    } catch (error) {
      throw withOwnStack(error)
    } finally {
      observe?.query(named.name, performance.now() - startedMs)
    }
  }
}

/** Never rejects: each of them tells its own caller. */
async function travel(line: PoolLine, queries: readonly NamedQuery[]): Promise<void> {
  let client: pg.PoolClient
  try {
    client = await line.connect()
  } catch (error) {
    for (const query of queries) query.handleError(error)
    return
  }
  let broken: Error | undefined
  for (const [first, ...others] of trainsOf(client, queries)) {
    first.run(client, others).catch(ignore)
    for (const { result } of [first, ...others])
      await result.catch((error: Error) => void (broken ??= isOfServer(error) ? undefined : error))
  }
  client.release(broken)
}

/** What this connection has not run yet goes alone, before the others: a statement that cannot be prepared must fail by itself. */
function trainsOf(client: pg.ClientBase, queries: readonly NamedQuery[]): [NamedQuery, ...NamedQuery[]][] {
  const [known, fresh]: [NamedQuery[], NamedQuery[]] = [[], []]
  for (const query of queries) (knows(client, query.name) ? known : fresh).push(query)
  const [first, ...others] = known
  return [
    ...fresh.map((query): [NamedQuery] => [query]),
    ...(first === undefined ? [] : [[first, ...others] as [NamedQuery, ...NamedQuery[]]]),
  ]
}

const ignore = (): void => undefined
