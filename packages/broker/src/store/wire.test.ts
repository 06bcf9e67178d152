import { expect, test } from 'vitest'
import { beginBytes, statementBytes, wireValuesOf } from './wire.ts'

const statement = { name: 'stacks.get', text: 'select 1', values: ['a', null], isNew: false, asksColumns: false, bytesOf: [] }

/** The letters of the messages, by the lengths they carry themselves. */
function lettersOf(bytes: Buffer): string {
  let letters = ''
  for (let at = 0; at < bytes.length; at += 1 + bytes.readInt32BE(at + 1)) letters += String.fromCharCode(bytes[at]!)
  return letters
}

test('a statement that is known is bound, executed and synced, and its columns are not asked for again', () => {
  expect(lettersOf(statementBytes(statement))).toBe('BES')
})

test('a new one is parsed and described on the way', () => {
  expect(lettersOf(statementBytes({ ...statement, isNew: true, asksColumns: true }))).toBe('PBDES')
})

test('begin and a statement end with one Sync', () => {
  expect(lettersOf(Buffer.concat([beginBytes, statementBytes(statement)]))).toBe('BEBES')
})

test('lengths count bytes, not characters, and bytes go as they are', () => {
  const bytes = statementBytes({ ...statement, values: wireValuesOf(['grün €', Buffer.from([0, 255]), '']) })
  expect(lettersOf(bytes)).toBe('BES')
  expect(bytes.includes(Buffer.from([0, 0, 0, 9, ...Buffer.from('grün €')]))).toBe(true)
  expect(bytes.includes(Buffer.from([0, 0, 0, 2, 0, 255]))).toBe(true)
})

test('columns of bytes are asked for as bytes, the others as text; without any nothing is said', () => {
  const bind = (bytesOf: readonly boolean[]) =>
    statementBytes({ ...statement, values: [], bytesOf })
      .toString('latin1')
      .split('E')[0]
  expect(lettersOf(statementBytes({ ...statement, bytesOf: [false, true] }))).toBe('BES')
  expect(bind([false, true])?.endsWith('\0\0\0\0\0\x02\0\0\0\x01')).toBe(true)
  expect(bind([false, false])).toBe(bind([]))
})
