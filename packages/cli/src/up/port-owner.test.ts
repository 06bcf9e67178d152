import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { findPortOwner } from './port-owner.ts'

test.each(['127.0.0.1', '::1'])('the owner of a port on %s is found by its socket', async (host) => {
  const server = createServer()
  await new Promise<void>((resolve) => void server.listen(0, host, resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  expect(findPortOwner(port)).toMatchObject({ pid: process.pid, command: expect.stringMatching(/node|vitest/) as unknown })
})

test('a free port has no owner', () => {
  expect(findPortOwner(1)).toBeNull()
})
