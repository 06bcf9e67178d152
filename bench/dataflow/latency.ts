// How long a message takes from one topic to another at ten messages a second: written with its time, read at the other end.

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Consumer, Producer } from '@platformatic/kafka'
import { transformations } from './payload.ts'

const messages = Number(process.env['BENCH_LATENCY_MESSAGES'] ?? 300)

export interface LatencyDeps {
  readonly broker: string
  readonly makeTopic: () => Promise<string>
  /** The path of a program by its name. */
  readonly program: (name: string) => string
}

export async function latencies(who: 'bare' | 'ours', { broker, makeTopic, program }: LatencyDeps): Promise<number[]> {
  const [from, to] = [await makeTopic(), await makeTopic()]
  const child = start(who === 'bare' ? [program('kafka-each'), broker, from, to] : [program('ours'), ...flow(broker, from, to)])
  const consumer = new Consumer({
    clientId: 'latency',
    groupId: `latency-${who}-${process.pid}`,
    bootstrapBrokers: [broker],
    autocommit: false,
    maxWaitTime: 100,
  })
  const producer = new Producer({ clientId: 'latency', bootstrapBrokers: [broker] })
  const latenciesMs: number[] = []
  const stream = await consumer.consume({ topics: [to], mode: 'latest' })
  stream.on('data', ({ value }) => {
    const { sent } = JSON.parse(String(value)) as { sent: number }
    latenciesMs.push(performance.timeOrigin + performance.now() - sent)
  })
  const send = async () => {
    const value = Buffer.from(JSON.stringify({ sent: performance.timeOrigin + performance.now(), status: 'open', card: '4111' }))
    await producer.send({ messages: [{ topic: from, key: Buffer.from('k'), value }], acks: 1 })
  }
  // The first ones wait for the flow to start.
  while (latenciesMs.length === 0) {
    await send()
    await sleep(500)
  }
  await sleep(2_000)
  latenciesMs.length = 0
  for (let at = 0; at < messages; at += 1) {
    await send()
    await sleep(100)
  }
  while (latenciesMs.length < messages) await sleep(50)
  await stream.close()
  await consumer.close(true)
  await producer.close()
  child.kill('SIGKILL')
  return latenciesMs
}

const start = (args: string[]) => spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })

function flow(broker: string, from: string, to: string): string[] {
  const file = join(tmpdir(), `latency-${process.pid}.json`)
  const part = (topic: string) => ({ type: 'kafka', config: { brokers: [broker], topic } })
  writeFileSync(file, JSON.stringify({ source: part(from), sink: part(to), transformations }))
  return [file, `latency-${process.pid}`, '1000000000']
}
