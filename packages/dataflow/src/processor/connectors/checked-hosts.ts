// Hosts that a flow names are looked up and checked before a connector's own driver dials them: link-local and metadata addresses
// never, loopback and Unix sockets only where the processor was told so, private networks always.
import { type Allow, allowPrivateNetworks } from '@brokkr/runtime/address.ts'
import { errorText, Terminal } from '@brokkr/runtime/errors.ts'
import { lookupAll, resolveChecked } from '@brokkr/runtime/outbound-connect.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'

type Guard = Pick<ConnectorContext, 'allowLoopback'>

export function allowedFor({ allowLoopback }: Guard): Allow {
  return allowLoopback ? { classes: [...(allowPrivateNetworks.classes ?? []), 'loopback'] } : allowPrivateNetworks
}

const lookupMs = 10_000

/** Throws class config for an address that may not be reached, class transient for a name that nobody knows. */
export async function checkHosts(guard: Guard, hosts: readonly string[]): Promise<void> {
  for (const host of new Set(hosts)) {
    if (host.startsWith('/')) checkSocket(guard, host)
    else await resolveChecked(lookupAll, host, allowedFor(guard), lookupMs).catch((thrown: unknown) => refuse(thrown))
  }
}

function checkSocket({ allowLoopback }: Guard, path: string): void {
  if (allowLoopback) return
  throw new ConnectorError({ class: 'config', type: 'connection_error' }, `the Unix socket ${path} may not be reached from here`)
}

function refuse(thrown: unknown): never {
  const kind = thrown instanceof Terminal ? 'config' : 'transient'
  throw new ConnectorError({ class: kind, type: 'connection_error' }, errorText(thrown), { cause: thrown })
}
