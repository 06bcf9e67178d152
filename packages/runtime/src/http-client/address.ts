// Classifies IP addresses and decides whether a request to an address that a user named is allowed. Pure. IPv6 forms that embed an
// IPv4 address (mapped, NAT64, 6to4 …) count as that address.
import { isIPv4, isIPv6 } from 'node:net'
import { Terminal } from '../errors.ts'

export type AddressClass =
  | 'public'
  | 'loopback'
  | 'private'
  | 'link-local'
  | 'metadata'
  | 'carrier-nat'
  | 'multicast'
  | 'unspecified'
  | 'broadcast'
  | 'reserved'
  | 'invalid'

/** Destinations allowed besides public addresses. A host name is allowed with any address; `*.example.com` matches all
 *  subdomains. */
export type Allow = {
  cidrs?: readonly string[]
  hosts?: readonly string[]
  classes?: readonly AddressClass[]
  /** Always forbidden, even if an allowed network contains it. */
  denied?: readonly string[]
}

/** For forges and connectors, which often are in the same network; excludes loopback, link-local and metadata addresses. */
export const allowPrivateNetworks: Allow = { classes: ['private', 'carrier-nat'] }

export function isForbidden(address: string, allow: Allow = {}): boolean {
  const kind = classifyAddress(address)
  if (isInside(address, allow.denied ?? [])) return true
  return kind !== 'public' && !allow.classes?.includes(kind) && !isInside(address, allow.cidrs ?? [])
}

/** Throws Terminal `address_refused`; `host` is how the address was named, for the message. */
export function checkAddress(address: string, allow: Allow = {}, host: string = address): void {
  if (!isForbidden(address, allow)) return
  const name = host === address ? address : `${host} (${address})`
  throw new Terminal(
    `${name} is a ${classifyAddress(address)} address and may not be reached from here: use a public address, or let the administrator allow this host or network`,
    { code: 'address_refused' },
  )
}

export function isAllowedHost(host: string, allow: Allow): boolean {
  const name = withoutDot(host)
  return (allow.hosts ?? []).some((allowed) => {
    const pattern = withoutDot(allowed)
    return pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) : name === pattern
  })
}

export function classifyAddress(address: string): AddressClass {
  const bytes = parseAddress(address)
  if (!bytes) return 'invalid'
  const carried = findEmbeddedIpv4(bytes)
  const own = carried && !carried.keepsOwnClass ? 'public' : findClass(bytes)
  return carried && own === 'public' ? findClass(carried.bytes) : own
}

/** True for a network such as `10.0.0.0/8`. Used to check settings. */
export function isCidr(text: string): boolean {
  return parseCidr(text) !== null
}

type Bytes = readonly number[]
type Cidr = { bytes: Bytes; bits: number }

/** The first match wins: a metadata address is inside a larger network. */
const networks: readonly (readonly [AddressClass, readonly string[]])[] = [
  ['metadata', ['169.254.169.254/32', '169.254.170.2/32', '169.254.170.23/32', '100.100.100.200/32', '192.0.0.192/32', '168.63.129.16/32']],
  ['metadata', ['fd00:ec2::254/128', 'fd00:ec2::23/128', 'fd20:ce::254/128']],
  ['unspecified', ['0.0.0.0/8', '::/128']],
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10']],
  ['carrier-nat', ['100.64.0.0/10']],
  ['broadcast', ['255.255.255.255/32']],
  ['multicast', ['224.0.0.0/4', 'ff00::/8']],
  ['reserved', ['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24', '240.0.0.0/4']],
  ['reserved', ['2001::/23', '2001:db8::/32', '3fff::/20']],
  ['public', ['0.0.0.0/0', '2000::/3']],
]
const parsedNetworks = networks.flatMap(([kind, cidrs]) => cidrs.map((cidr) => ({ kind, cidr: parseCidr(cidr) })))

/** IPv6 outside 2000::/3 is not allocated, so it is never a public server. */
function findClass(bytes: Bytes): AddressClass {
  return parsedNetworks.find(({ cidr }) => cidr && contains(cidr, bytes))?.kind ?? 'reserved'
}

type EmbeddedAddress = { bytes: Bytes; keepsOwnClass: boolean }

/** mapped · translated · NAT64 · compatible (all at the end) · 6to4 · ISATAP, which has its own class. */
function findEmbeddedIpv4(bytes: Bytes): EmbeddedAddress | null {
  if (bytes.length === 4) return null
  const starts = (cidr: string) => contains(parseCidr(cidr) as Cidr, bytes)
  const last = { bytes: bytes.slice(12), keepsOwnClass: false }
  if (starts('::ffff:0:0/96') || starts('::ffff:0:0:0/96') || starts('64:ff9b::/96')) return last
  if (starts('::/96') && !starts('::/127')) return last
  if (starts('2002::/16')) return { bytes: bytes.slice(2, 6), keepsOwnClass: false }
  const isIsatap = [0, 2].includes(bytes[8] ?? -1) && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe
  return isIsatap ? { bytes: bytes.slice(12), keepsOwnClass: true } : null
}

export function isInside(address: string, cidrs: readonly string[]): boolean {
  const bytes = parseAddress(address)
  const forms = bytes ? [bytes, findEmbeddedIpv4(bytes)?.bytes ?? bytes] : []
  const parsed = cidrs.map(parseCidr)
  return forms.some((form) => parsed.some((cidr) => cidr !== null && contains(cidr, form)))
}

function contains(cidr: Cidr, bytes: Bytes): boolean {
  if (cidr.bytes.length !== bytes.length) return false
  return cidr.bytes.every((byte, index) => {
    const bits = Math.min(8, Math.max(0, cidr.bits - index * 8))
    return byte >> (8 - bits) === (bytes[index] ?? -1) >> (8 - bits)
  })
}

function parseCidr(text: string): Cidr | null {
  const [address = '', length = '', ...more] = text.trim().split('/')
  const bytes = parseAddress(address)
  if (!bytes || more.length > 0) return null
  const bits = text.includes('/') ? (/^\d{1,3}$/.test(length) ? Number(length) : -1) : bytes.length * 8
  return bits >= 0 && bits <= bytes.length * 8 ? { bytes, bits } : null
}

function parseAddress(text: string): Bytes | null {
  if (isIPv4(text)) return text.split('.').map(Number)
  const [address = ''] = text.split('%') // a zone names an interface, not another network
  return isIPv6(address) ? ipv6Bytes(address) : null
}

function ipv6Bytes(address: string): Bytes {
  const hex = address.replace(/\d+\.\d+\.\d+\.\d+$/, (quad) => {
    const [a = 0, b = 0, c = 0, d = 0] = quad.split('.').map(Number)
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
  })
  const [head, tail] = hex.split('::').map((half) => (half === '' ? [] : half.split(':')))
  const before = head ?? []
  const after = tail ?? []
  const groups = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => '0'), ...after]
  return groups.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255])
}

function withoutDot(host: string): string {
  return host.toLowerCase().replace(/\.$/, '')
}
