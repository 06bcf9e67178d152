import { createLog } from '@brokkr/runtime/logging/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { jsonMessage } from '../processor/test-parts/scripted.ts'
import { scriptedFlow } from '../processor/test-parts/scripted-flow.ts'
import { buildMessageId } from './message-id.ts'

test.each([
  [{ message_id: 'm1', id: 7, partition: 0, offset: 5 }, 'm1'],
  [{ id: 7, partition: 0, offset: 5 }, '7'],
  [{ kafka_partition: 1, kafka_offset: 9 }, '1/9'],
  [{ partition: 0, offset: 0 }, '0/0'],
  [{ offset: 12 }, '12'],
  [{ partition: 3 }, ''],
  [{ id: null, offset: 1 }, '1'],
  [{}, ''],
])('a message is named by its id, else by its place: %j', (metadata, id) => {
  expect(buildMessageId(metadata)).toBe(id)
})

const cast = [{ type: 'cast', config: { spec: { n: 'int64' } } }]
const bad = jsonMessage({ n: 'no number' }, 4, 0, { partition: 0, offset: 4 })
const logTo = (lines: Record<string, unknown>[]) =>
  createLog({
    name: 'test',
    level: 'debug',
    destination: { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  })

test('log lines about a dead letter, a block and a skip name the message', async () => {
  const lines: Record<string, unknown>[] = []
  const errors = { type: 'kafka', config: { brokers: ['b:9092'], topic: 'dead' } }
  const lettered = scriptedFlow({ transformations: cast, errors }, { log: logTo(lines) })
  lettered.source.push({ messages: [bad] })
  lettered.source.end()
  await lettered.done
  const blocked = scriptedFlow({ transformations: cast }, { isBounded: false, log: logTo(lines) })
  blocked.source.push({ messages: [bad] })
  await waitFor('the block', () => blocked.pipeline.flowStatus.blockReasons.blocked)
  expect(blocked.pipeline.flowStatus.blockReasons.blocked).not.toHaveProperty('messageId')
  blocked.pipeline.stop()
  await blocked.done
  const skipped = scriptedFlow({ transformations: cast }, { oneShots: { skip: 'p[0]=4' }, log: logTo(lines) })
  skipped.source.push({ messages: [bad] })
  skipped.source.end()
  await skipped.done
  for (const msg of ['message dead-lettered', 'flow blocked', 'message skipped'])
    expect(lines.filter((line) => line['msg'] === msg && line['message_id'] === '0/4')).toHaveLength(1)
})
