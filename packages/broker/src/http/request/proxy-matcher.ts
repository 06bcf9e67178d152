// Trusted proxies: whether an address is one, and the client address behind them. Pure.
import { BlockList, isIP, isIPv6 } from 'node:net'

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
