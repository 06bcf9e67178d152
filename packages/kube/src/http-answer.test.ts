import { expect, test } from 'vitest'
import { AnswerReader, BrokenAnswer } from './http-answer.ts'

const lines = (...all: string[]) => all.join('\r\n')
const chunked = lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', '3', '{"a', '5;x=y', '":"ü', '2', '"}', '0', '', '')

/** What comes of an answer that arrives in these pieces, in memory that is used again for each; undefined: it is not complete. */
function read(pieces: readonly Buffer[], isEnded = false) {
  const reader = new AnswerReader()
  const memory = Buffer.alloc(4096)
  let isWhole = false
  for (const piece of pieces) {
    expect(isWhole, 'nothing may be left when the answer is complete').toBe(false)
    memory.fill(0)
    piece.copy(memory)
    isWhole = reader.push(memory.subarray(0, piece.length))
  }
  if (isEnded && !isWhole) isWhole = reader.end()
  const { status, headers, isKept, bytes } = reader
  return isWhole ? { status, headers: { ...headers }, body: reader.body().toString('utf8'), isKept, bytes } : undefined
}
const cutAt = (bytes: Buffer, at: number) => [bytes.subarray(0, at), bytes.subarray(at)]

test.each([
  ['with its length', lines('HTTP/1.1 200 OK', 'Content-Length: 5', '', 'hällo'.slice(0, 4)), 'häll', true],
  ['in chunks', chunked, '{"a":"ü"}', true],
  [
    'in chunks, with trailers',
    lines('HTTP/1.1 200', 'transfer-encoding: Chunked', '', 'a', '0123456789', '00', 'x-sum: 1', '', ''),
    '0123456789',
    true,
  ],
  ['of nothing', lines('HTTP/1.1 200 OK', 'content-length: 0', '', ''), '', true],
  ['without a body', lines('HTTP/1.1 204 No Content', '', ''), '', true],
  ['that has not changed', lines('HTTP/1.1 304 Not Modified', 'content-length: 12', '', ''), '', true],
  [
    'behind a word on the way',
    lines('HTTP/1.1 100 Continue', '', 'HTTP/1.1 103 Early Hints', 'link: x', '', 'HTTP/1.1 200 OK', 'content-length: 2', '', 'ok'),
    'ok',
    true,
  ],
  ['after which the server closes', lines('HTTP/1.1 200 OK', 'connection: keep-alive, Close', 'content-length: 2', '', 'ok'), 'ok', false],
  ['of HTTP/1.0', lines('HTTP/1.0 200 OK', 'content-length: 2', '', 'ok'), 'ok', false],
  [
    'that names two lengths',
    lines('HTTP/1.1 200 OK', 'content-length: 2', 'transfer-encoding: chunked', '', '2', 'ok', '0', '', ''),
    'ok',
    false,
  ],
])('an answer %s is the same in one piece, in two that are cut anywhere, and byte by byte', (_what, text, body, isKept) => {
  const bytes = Buffer.from(text)
  const whole = read([bytes])
  expect(whole).toMatchObject({ body, isKept, bytes: Buffer.byteLength(body) })
  for (let at = 1; at < bytes.length; at++) expect(read(cutAt(bytes, at)), `cut at ${at}`).toEqual(whole)
  expect(read([...bytes].map((byte) => Buffer.of(byte)))).toEqual(whole)
})

test('an answer that does not say how long it is ends with its connection, and every other one that is cut there is not complete', () => {
  const open = Buffer.from(lines('HTTP/1.1 200 OK', 'content-type: text/html', '', '<html>'))
  expect(read([open])).toBeUndefined()
  expect(read([open], true)).toMatchObject({ body: '<html>', isKept: false })
  for (const text of [
    '',
    'HTTP/1.1 200 OK\r\n',
    lines('HTTP/1.1 200 OK', 'content-length: 9', '', 'short'),
    chunked.slice(0, -2),
    chunked.slice(0, -7),
  ])
    expect(read([Buffer.from(text)], true), JSON.stringify(text)).toBeUndefined()
})

test('headers are known by small letters, and one that stands several times has all of its values', () => {
  const head = [
    'HTTP/1.1 200 OK',
    'Warning: 299 - "a"',
    'WARNING:299 - "b"',
    'X-Empty:',
    'Date: Tue, 17 Nov 2026 10:00:00 GMT  ',
    'content-length: 0',
    '',
    '',
  ]
  expect(read([Buffer.from(lines(...head, ''))])?.headers).toEqual({
    warning: ['299 - "a"', '299 - "b"'],
    'x-empty': '',
    date: 'Tue, 17 Nov 2026 10:00:00 GMT',
    'content-length': '0',
  })
  const named = read([Buffer.from(lines('HTTP/1.1 200 OK', '__proto__: x', 'constructor: y', 'content-length: 0', '', ''))])
  expect(Object.keys(named?.headers ?? {})).toEqual(['__proto__', 'constructor', 'content-length'])
})

test('bytes behind the end of an answer are nobody’s, and its connection is not used again', () => {
  expect(read([Buffer.from(lines('HTTP/1.1 200 OK', 'content-length: 2', '', 'okHTTP/1.1 200 OK'))])).toMatchObject({
    body: 'ok',
    isKept: false,
  })
})

test.each([
  ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
  ['a version that is not spoken', 'HTTP/2 200 OK\r\n\r\n'],
  ['a change of protocol', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n'],
  ['a line without a name', 'HTTP/1.1 200 OK\r\n: x\r\n\r\n'],
  ['a line that is no header', 'HTTP/1.1 200 OK\r\nnonsense\r\na: b\r\n\r\n'],
  ['a folded line', 'HTTP/1.1 200 OK\r\na: b\r\n c: d\r\n\r\n'],
  ['a length that is none', 'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n'],
  ['two different lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n'],
  ['a coding that is not known', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n'],
  ['a chunk without a size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
  ['a chunk longer than it says', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n'],
  ['a size without end', `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1'.repeat(10_000)}`],
  ['a head without end', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`],
])('%s is a broken answer', (_what, text) => {
  expect(() => new AnswerReader().push(Buffer.from(text))).toThrow(BrokenAnswer)
})
