import { BlockList } from 'node:net'
import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type AddressClass,
  type Allow,
  allowPrivateNetworks,
  checkAddress,
  classifyAddress,
  isAllowedHost,
  isCidr,
  isForbidden,
} from './address.ts'

test.each<[string, AddressClass]>([
  ['8.8.8.8', 'public'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.255', 'loopback'],
  ['0.0.0.0', 'unspecified'],
  ['0.1.2.3', 'unspecified'],
  ['10.0.0.1', 'private'],
  ['172.15.255.255', 'public'],
  ['172.16.0.0', 'private'],
  ['172.31.255.255', 'private'],
  ['172.32.0.0', 'public'],
  ['192.168.1.1', 'private'],
  ['100.64.0.1', 'carrier-nat'],
  ['100.128.0.0', 'public'],
  ['169.254.1.1', 'link-local'],
  ['169.254.169.254', 'metadata'],
  ['169.254.170.2', 'metadata'],
  ['100.100.100.200', 'metadata'],
  ['168.63.129.16', 'metadata'],
  ['192.0.0.192', 'metadata'],
  ['192.0.0.1', 'reserved'],
  ['192.0.2.1', 'reserved'],
  ['198.18.0.1', 'reserved'],
  ['198.20.0.0', 'public'],
  ['203.0.113.9', 'reserved'],
  ['224.0.0.1', 'multicast'],
  ['239.255.255.255', 'multicast'],
  ['240.0.0.1', 'reserved'],
  ['255.255.255.255', 'broadcast'],
  ['2606:4700::1111', 'public'],
  ['::', 'unspecified'],
  ['::1', 'loopback'],
  ['fe80::1', 'link-local'],
  ['fe80::1%eth0', 'link-local'],
  ['fc00::1', 'private'],
  ['fdff:ffff::1', 'private'],
  ['fec0::1', 'private'],
  ['fd00:ec2::254', 'metadata'],
  ['ff02::1', 'multicast'],
  ['2001:db8::1', 'reserved'],
  ['2001::1', 'reserved'],
  ['3fff::1', 'reserved'],
  ['100::1', 'reserved'],
  ['5f00::1', 'reserved'],
  ['4000::1', 'reserved'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['::ffff:169.254.169.254', 'metadata'],
  ['::ffff:8.8.8.8', 'public'],
  ['::ffff:0:10.0.0.1', 'private'],
  ['::10.0.0.1', 'private'],
  ['64:ff9b::10.0.0.1', 'private'],
  ['64:ff9b::8.8.8.8', 'public'],
  ['64:ff9b:1::8.8.8.8', 'reserved'],
  ['2002:7f00:1::', 'loopback'],
  ['2002:808:808::1', 'public'],
  ['2606:4700::5efe:10.0.0.1', 'private'],
  ['fe80::200:5efe:8.8.8.8', 'link-local'],
  ['127.1', 'invalid'],
  ['2130706433', 'invalid'],
  ['localhost', 'invalid'],
  ['', 'invalid'],
])('%s is %s', (address, expected) => {
  expect(classifyAddress(address)).toBe(expected)
  expect(isForbidden(address)).toBe(expected !== 'public')
})

test.each<[string, Allow, boolean]>([
  ['10.1.2.3', { cidrs: ['10.1.0.0/16'] }, false],
  ['10.2.2.3', { cidrs: ['10.1.0.0/16'] }, true],
  ['::ffff:10.1.2.3', { cidrs: ['10.1.0.0/16'] }, false],
  ['127.0.0.1', { cidrs: ['127.0.0.1'] }, false],
  ['127.0.0.2', { cidrs: ['127.0.0.1'] }, true],
  ['fd12::1', { cidrs: ['fd12::/32'] }, false],
  ['10.0.0.1', { cidrs: ['nonsense', '0.0.0.0/-1', '0.0.0.0/33', '::/0'] }, true],
  ['10.0.0.1', { cidrs: ['0.0.0.0/0'] }, false],
  ['10.0.0.1', allowPrivateNetworks, false],
  ['100.64.0.1', allowPrivateNetworks, false],
  ['127.0.0.1', allowPrivateNetworks, true],
  ['169.254.169.254', allowPrivateNetworks, true],
  ['fd00:ec2::254', allowPrivateNetworks, true],
  ['100.100.100.200', allowPrivateNetworks, true],
  ['127.0.0.1', { classes: ['loopback'] }, false],
])('%s with %j is forbidden: %s', (address, allow, expected) => {
  expect(isForbidden(address, allow)).toBe(expected)
})

test.each([
  ['forge.internal', ['forge.internal'], true],
  ['FORGE.internal.', ['Forge.Internal'], true],
  ['a.forge.internal', ['forge.internal'], false],
  ['a.forge.internal', ['*.forge.internal'], true],
  ['forge.internal', ['*.forge.internal'], false],
  ['evilforge.internal', ['*.forge.internal'], false],
  ['any', [], false],
])('host %s with %j is allowed: %s', (host, hosts, expected) => {
  expect(isAllowedHost(host, { hosts })).toBe(expected)
})

test('a rejection names host, address, class and remedy', () => {
  expect(() => checkAddress('10.0.0.1', {}, 'db.local')).toThrow(/db\.local \(10\.0\.0\.1\) is a private address .*administrator allow/)
  expect(() => checkAddress('8.8.8.8')).not.toThrow()
})

test.each(['10.0.0.0/8', '::/0', '1.2.3.4', 'fd00::/8'])('%s is a network', (text) => expect(isCidr(text)).toBe(true))
test.each(['10.0.0.0/33', '10.0.0/8', '/8', '10.0.0.0/', '10.0.0.0/8/8', 'x', '::/129'])('%s is none', (text) =>
  expect(isCidr(text)).toBe(false),
)

/** Node's own implementation as the second opinion, on addresses that are forbidden unless the network allows them. */
test('agrees with Node about which network holds an address', { timeout: 20_000 + 100 * size('Q7.cases') }, () => {
  const byte = fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 127, 128, 255))
  const group = fc.oneof(fc.nat(0xffff), fc.constantFrom(0, 1, 0xffff)).map((value) => value.toString(16))
  const v4 = fc.tuple(byte, byte, byte).map((bytes) => ['ipv4', ['10', ...bytes].join('.'), 32] as const)
  const v6 = fc
    .tuple(group, group, group, group, group, group, group)
    .map((groups) => ['ipv6', ['fd12', ...groups].join(':'), 128] as const)
  fc.assert(
    fc.property(fc.oneof(fc.tuple(v4, v4), fc.tuple(v6, v6)), fc.nat(128), ([[family, address, bitsMax], [, other]], length) => {
      const bits = length % (bitsMax + 1)
      for (const network of [other, address]) {
        const list = new BlockList()
        list.addSubnet(network, bits, family)
        expect(isForbidden(address, { cidrs: [`${network}/${bits}`] })).toBe(!list.check(address, family))
      }
    }),
    { numRuns: size('Q7.cases') * 10 },
  )
})

test('no text makes it throw', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.ipV4Extended(), fc.ipV6(), fc.webAuthority()), (text) => {
      expect(typeof isForbidden(text, { cidrs: [text] })).toBe('boolean')
    }),
  )
})
