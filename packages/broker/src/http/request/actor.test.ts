import { expect, test } from 'vitest'
import { createProxyMatcher, findClientAddress } from './actor.ts'

const isProxy = createProxyMatcher(['127.0.0.1', '10.0.0.0/8', 'fd00::/8'])

test.each<[string, string, string | undefined, string]>([
  ['no proxy', '203.0.113.9', '198.51.100.7', '203.0.113.9'],
  ['a proxy without the header', '127.0.0.1', undefined, '127.0.0.1'],
  ['one proxy', '127.0.0.1', '198.51.100.7', '198.51.100.7'],
  ['an address that the client claims before its own', '127.0.0.1', '1.2.3.4, 198.51.100.7', '198.51.100.7'],
  ['two proxies', '127.0.0.1', '198.51.100.7, 10.1.2.3', '198.51.100.7'],
  ['only proxies', '127.0.0.1', '10.1.2.4, 10.1.2.3', '10.1.2.4'],
  ['text that is no address', '127.0.0.1', 'unknown', '127.0.0.1'],
  ['an IPv6 proxy', 'fd00::1', '2001:db8::7', '2001:db8::7'],
  ['an IPv4 peer in IPv6 form', '::ffff:127.0.0.1', '198.51.100.7', '198.51.100.7'],
  ['an IPv4 client in IPv6 form', '::ffff:198.51.100.7', undefined, '198.51.100.7'],
])('with %s the client address is the right-most untrusted one', (_, peer, header, expected) => {
  expect(findClientAddress(peer, header, isProxy)).toBe(expected)
})
