import { expect, test } from 'vitest'
import { type Flow, StreamedBody } from './streamed-body.ts'

/** What the connection was told to do. */
function connection() {
  const told: string[] = []
  const controller = {
    pause: () => void told.push('pause'),
    resume: () => void told.push('resume'),
    abort: (reason: Error) => void told.push(`abort: ${reason.message}`),
  } satisfies Flow
  const body = new StreamedBody()
  body.onRequestStart(controller)
  body.onResponseStart(controller, 200, {})
  return { told, body, send: (text: string) => body.onResponseData(controller, Buffer.from(text)), controller }
}
const taken = async (body: StreamedBody) => (await body.take())?.map(String)

test('take returns all pending chunks, or waits for the next', async () => {
  const { body, send } = connection()
  send('a')
  send('b')
  expect(await taken(body)).toEqual(['a', 'b'])
  const next = taken(body)
  send('c')
  expect(await next).toEqual(['c'])
  body.onResponseEnd()
  expect([await taken(body), await taken(body)]).toEqual([undefined, undefined])
})

test('a connection is paused once when the reader is slow', async () => {
  const { body, send, told } = connection()
  for (let n = 0; n < 20; n++) send('x'.repeat(100_000))
  expect(told).toEqual(['pause'])
  expect((await body.take())?.length).toBe(20)
  expect(told).toEqual(['pause', 'resume'])
  send('x')
  await body.take()
  expect(told).toEqual(['pause', 'resume'])
})

test('chunks before a closed connection are delivered before the error', async () => {
  const { body, send, controller } = connection()
  send('a')
  body.onResponseError(controller, new Error('cut'))
  expect(await taken(body)).toEqual(['a'])
  await expect(body.take()).rejects.toThrow('cut')
})

test('closing a body closes its connection, also before the response', async () => {
  const { body, send, told, controller } = connection()
  const next = body.take()
  body.close(new Error('enough'))
  await expect(next).rejects.toThrow('enough')
  send('late')
  await expect(body.take()).rejects.toThrow('enough')
  expect(told).toEqual(['abort: enough'])
  const early = new StreamedBody()
  early.close(new Error('early'))
  early.onRequestStart(controller)
  await expect(early.head).rejects.toThrow('early')
  expect(told).toEqual(['abort: enough', 'abort: early'])
})

test('a complete body leaves its connection open', () => {
  const { body, told } = connection()
  body.onResponseEnd()
  body.close(new Error('no longer wanted'))
  expect(told).toEqual([])
})
