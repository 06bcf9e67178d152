// The one place that uses the private `connection` of a pg client: logical replication needs COPY BOTH, which the public interface of pg
// does not offer. package.json pins pg to an exact version; wire-connection.test.ts fails if this interface changes.
import type { Socket } from 'node:net'
import type pg from 'pg'

export interface WireConnection extends NodeJS.EventEmitter {
  readonly stream: Socket
  sendCopyFromChunk(chunk: Buffer): void
}

export function getWireConnection(client: pg.Client): WireConnection {
  return (client as unknown as { connection: WireConnection }).connection
}
