// The list of sockets over all broker processes.
import type { BrokerDeps } from '../deps.ts'
import type { Handler } from '../http/server/handler.ts'

export const handleListConnections: Handler<'listWsConnections', BrokerDeps> = ({ live }) => live.listConnections()
