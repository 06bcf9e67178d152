// The caller of a request: actor for the audit log, client address behind proxies, host name that it used.
import { BlockList, isIP, isIPv6 } from 'node:net'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Actor } from '../../audit/rules.ts'
import type { Caller, RequestContext } from '../server/handler.ts'

/** The actor of a request for the audit log. */
export const toActor = ({ principal, clientAddress, userAgent, requestId }: Pick<RequestContext, 'principal' | keyof Caller>): Actor => ({
  // An invite is not an actor; the joining agent is recorded as itself. Likewise the session of a sign-in link.
  ...(principal.kind === 'invite' || principal.kind === 'link' ? { kind: 'system', id: null } : { kind: principal.kind, id: principal.id }),
  address: clientAddress,
  userAgent,
  requestId,
})

// Trusted proxies: whether an address is one, and the client address behind them. Pure.

export type ProxyMatcher = (address: string) => boolean

export function createProxyMatcher(proxies: readonly string[]): ProxyMatcher {
  const list = new BlockList()
  for (const proxy of proxies) {
    const [address = '', bits] = proxy.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return (address) => isIP(address) !== 0 && list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/** The right-most address that is no trusted proxy, or the peer if the header names something else than addresses. */
export function findClientAddress(peer: string, forwardedFor: string | undefined, isProxy: ProxyMatcher): string {
  const hops = (forwardedFor ?? '').split(',').map((hop) => hop.trim())
  let address = peer
  while (isProxy(address)) {
    const hop = hops.pop() ?? ''
    if (hop === '') break
    if (isIP(hop) === 0) return plainAddress(peer)
    address = hop
  }
  return plainAddress(address)
}

export const plainAddress = (address: string): string =>
  address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address

/** The address by which the caller reached the broker, for links and manifests that name the broker. */
export function requireHost(host: string | undefined): string {
  if (host !== undefined && /^([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?$/.test(host)) return host
  throw new ApiError('validation_failed', 'the Host header must be the name by which clients reach the broker', {
    details: { errors: [{ path: 'Host', message: 'is not a host name' }] },
  })
}
