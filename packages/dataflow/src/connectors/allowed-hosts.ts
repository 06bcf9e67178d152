// Resolves and checks the hosts that a flow names before a connector's driver connects: link-local and metadata addresses are always
// refused, loopback and Unix sockets unless the processor allows them, private networks are allowed.

import { errorText, Terminal } from '@brokkr/runtime/errors.ts'
import { type Allow, allowPrivateNetworks } from '@brokkr/runtime/http-client/address.ts'
import { lookupAll, resolveChecked } from '@brokkr/runtime/http-client/connect.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'

type Guard = Pick<ConnectorContext, 'allowLoopback'>

export function allowedFor({ allowLoopback }: Guard): Allow {
  return allowLoopback ? { classes: [...(allowPrivateNetworks.classes ?? []), 'loopback'] } : allowPrivateNetworks
}

const lookupMs = 10_000

/** Throws class config for an address that is not allowed, class transient for a name that does not resolve. */
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
