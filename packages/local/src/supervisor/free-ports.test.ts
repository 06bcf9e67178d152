import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { freePort, freePorts } from './free-ports.ts'

test('freePorts returns different ports that can be bound', async () => {
  const ports = await freePorts(20)
  expect(new Set(ports).size).toBe(20)
  for (const port of ports) await listenOnce(port)
})

test('freePort returns a number between 1 and 65535', async () => {
  const port = await freePort()
  expect(port).toBeGreaterThan(0)
  expect(port).toBeLessThan(65_536)
  expect(await freePorts(0)).toEqual([])
})

test.runIf(process.platform === 'linux')('freePorts returns ports outside the range of outgoing connections', async () => {
  const [first] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)
  expect(Math.max(...(await freePorts(50)))).toBeLessThan(Number(first))
})

function listenOnce(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(port, '127.0.0.1', () => server.close(() => resolve()))
  })
}
