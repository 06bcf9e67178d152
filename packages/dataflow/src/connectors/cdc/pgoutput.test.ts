import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toChanges } from './changes.ts'
import { commitTime, decodePgoutput, lsnText, type PgMessage, parseLsn, type Relation, type Value } from './pgoutput.ts'
import { CdcProgress } from './progress.ts'

const int64 = (value: bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(value)
  return bytes
}
const int32 = (value: number) => Buffer.from([value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255])
const int16 = (value: number) => Buffer.from([value >> 8, value & 255])
const text = (value: string) => Buffer.from(`${value}\0`)
const all = (...parts: (string | Buffer)[]) => Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
const tuple = (values: readonly Value[]) =>
  all(
    int16(values.length),
    ...values.map((value) => (value === null ? 'n' : value === undefined ? 'u' : all('t', int32(Buffer.byteLength(value)), value))),
  )
const relationBytes = all(
  'R',
  int32(7),
  text('public'),
  text('t'),
  'd',
  int16(2),
  Buffer.from([1]),
  text('id'),
  int32(23),
  int32(-1),
  Buffer.from([0]),
  text('a'),
  int32(25),
  int32(-1),
)
const relation: Relation = {
  id: 7,
  schema: 'public',
  table: 't',
  identity: 'd',
  columns: [
    { name: 'id', type: 23, isKey: true },
    { name: 'a', type: 25, isKey: false },
  ],
}

describe('every message of the protocol', () => {
  test.each([
    ['begin', all('B', int64(0x1_0000_0002n), int64(5n), int32(9)), { kind: 'begin', commitLsn: 0x1_0000_0002n, timeMicros: 5n, xid: 9 }],
    ['commit', all('C', Buffer.from([0]), int64(1n), int64(2n), int64(3n)), { kind: 'commit', commitLsn: 1n, endLsn: 2n, timeMicros: 3n }],
    ['relation', relationBytes, { kind: 'relation', relation }],
    ['insert', all('I', int32(7), 'N', tuple(['1', null])), { kind: 'insert', relation: 7, after: ['1', null] }],
    [
      'update',
      all('U', int32(7), 'N', tuple(['1', undefined])),
      { kind: 'update', relation: 7, before: undefined, after: ['1', undefined] },
    ],
    [
      'update with an old key',
      all('U', int32(7), 'K', tuple(['0', null]), 'N', tuple(['1', 'ä'])),
      { kind: 'update', relation: 7, before: { kind: 'K', values: ['0', null] }, after: ['1', 'ä'] },
    ],
    [
      'update with the old row',
      all('U', int32(7), 'O', tuple(['0', 'x']), 'N', tuple(['1', ''])),
      { kind: 'update', relation: 7, before: { kind: 'O', values: ['0', 'x'] }, after: ['1', ''] },
    ],
    ['delete', all('D', int32(7), 'K', tuple(['1', null])), { kind: 'delete', relation: 7, before: { kind: 'K', values: ['1', null] } }],
    ['truncate', all('T', int32(2), Buffer.from([1]), int32(7), int32(8)), { kind: 'truncate', relations: [7, 8] }],
    ['type', all('Y', int32(1), text('s'), text('n')), { kind: 'other', tag: 'Y' }],
    ['origin', all('O', int64(1n), text('o')), { kind: 'other', tag: 'O' }],
  ] as [string, Buffer, PgMessage][])('%s', (_name, bytes, message) => {
    expect(decodePgoutput(bytes)).toEqual(message)
    if (message.kind === 'other') return
    // Nothing is read from half a message, and nothing may follow it.
    for (let end = 0; end < bytes.length; end += 1) expect(() => decodePgoutput(bytes.subarray(0, end))).toThrow('pgoutput: ')
    expect(() => decodePgoutput(all(bytes, 'x'))).toThrow('too many')
  })

  test('encoded tuples of any text decode to the same text', () => {
    const value = fc.oneof(fc.constant(null), fc.constant(undefined), fc.string({ unit: 'grapheme' }))
    fc.assert(
      fc.property(fc.array(value, { maxLength: 20 }), (values) => {
        expect(decodePgoutput(all('I', int32(7), 'N', tuple(values)))).toEqual({ kind: 'insert', relation: 7, after: values })
      }),
    )
  })

  test('any bytes decode or throw a pgoutput error', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          expect(decodePgoutput(Buffer.from(bytes))).toHaveProperty('kind')
        } catch (error) {
          expect(String(error)).toMatch(/pgoutput:/)
        }
      }),
    )
  })
})

test('LSNs and times', () => {
  expect(lsnText(0x15459c8n)).toBe('0/15459C8')
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (lsn) => {
      expect(parseLsn(lsnText(lsn))).toBe(lsn)
    }),
  )
  expect(() => parseLsn('x')).toThrow('no LSN')
  expect(commitTime(820_551_845_123_456n)).toBe('2026-01-01T03:04:05.123456Z')
  expect(commitTime(0n)).toBe('2000-01-01T00:00:00.000Z')
})

describe('confirmed positions', () => {
  const progress = () => new CdcProgress(10n)

  test('a transaction is confirmed in order when it is complete and finished', () => {
    const slot = progress()
    slot.begin(20n)
    slot.handedOut(20n, 0)
    slot.handedOut(20n, 1)
    slot.ended(20n, 1)
    expect(slot.confirmed).toBe(10n)
    slot.commit(20n, 25n)
    expect(slot.confirmed).toBe(25n)
    slot.begin(30n)
    slot.handedOut(30n, 0)
    slot.commit(30n, 35n)
    slot.begin(40n)
    slot.commit(40n, 45n)
    slot.keepalive(99n)
    expect(slot.confirmed).toBe(25n)
    slot.ended(30n, 0)
    expect(slot.confirmed).toBe(45n)
    slot.keepalive(99n)
    expect(slot.confirmed).toBe(99n)
  })

  test('the WAL end is not confirmed while a transaction is incomplete', () => {
    const slot = progress()
    slot.begin(20n)
    slot.keepalive(50n)
    expect(slot.confirmed).toBe(10n)
  })

  test('repeated messages after a reconnect count once', () => {
    const slot = progress()
    slot.begin(20n)
    slot.handedOut(20n, 0)
    slot.reconnect()
    slot.begin(20n)
    slot.handedOut(20n, 0)
    slot.commit(20n, 25n)
    slot.ended(20n, 0)
    expect(slot.confirmed).toBe(25n)
  })

  test('a transaction that was cut off, finished and then repeated is confirmed', () => {
    const slot = progress()
    slot.begin(20n)
    slot.handedOut(20n, 0)
    slot.commit(20n, 25n)
    slot.begin(30n)
    slot.handedOut(30n, 0)
    // The connection is lost before the commit of the second transaction, and the server repeats both.
    slot.reconnect()
    slot.begin(20n)
    slot.ended(30n, 0)
    slot.handedOut(20n, 0)
    slot.commit(20n, 25n)
    slot.begin(30n)
    slot.handedOut(30n, 0)
    slot.commit(30n, 35n)
    expect(slot.confirmed).toBe(35n)
    slot.keepalive(99n)
    expect(slot.confirmed).toBe(99n)
  })

  test('every order of reconnects and outcomes ends with the WAL confirmed', () => {
    const transactions = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(transactions, fc.infiniteStream(fc.nat(5)), fc.integer({ min: 0, max: 4 }), (sizes, choices, reconnects) => {
        const slot = progress()
        const choose = () => choices.next().value ?? 0
        const open: { commit: bigint; number: number }[] = []
        let emitted = -1n
        const end = () => {
          const done = open.shift()
          if (done !== undefined) slot.ended(done.commit, done.number)
        }
        /** One connection: the server sends what is not confirmed, and stops after `frames`. */
        const connect = (frames: number) => {
          slot.reconnect()
          const from = slot.confirmed
          let sent = 0
          const isCut = () => (sent += 1) > frames
          for (const [index, size] of sizes.entries()) {
            const commit = 20n + 10n * BigInt(index)
            if (commit + 5n <= from) continue
            if (isCut()) return
            slot.begin(commit)
            for (let number = 0; number < size; number += 1) {
              if (isCut()) return
              slot.handedOut(commit, number)
              const position = commit * 10n + BigInt(number)
              if (position > emitted) {
                emitted = position
                open.push({ commit, number })
              }
              if (choose() === 0) end()
            }
            if (isCut()) return
            slot.commit(commit, commit + 5n)
            if (choose() < 2) end()
            if (open[0] !== undefined) expect(slot.confirmed).toBeLessThan(open[0].commit + 5n)
          }
          slot.keepalive(1000n)
        }
        for (let count = 0; count < reconnects; count += 1) connect(choose() * 3)
        connect(Number.POSITIVE_INFINITY)
        while (open.length > 0) end()
        slot.keepalive(1000n)
        expect(slot.confirmed).toBe(1000n)
      }),
      { numRuns: 2_000 },
    )
  })

  test('no event order confirms a message without an outcome', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 12 }),
        fc.infiniteStream(fc.nat(2)),
        (sizes, choices) => {
          const slot = progress()
          const open: { commit: bigint; number: number; end: bigint }[] = []
          let at = 20n
          for (const size of sizes) {
            slot.begin(at)
            for (let number = 0; number < size; number += 1) {
              slot.handedOut(at, number)
              open.push({ commit: at, number, end: at + 5n })
            }
            slot.commit(at, at + 5n)
            slot.keepalive(at + 6n)
            for (let count = choices.next().value ?? 0; count > 0 && open.length > 0; count -= 1) {
              const done = open.shift()!
              slot.ended(done.commit, done.number)
            }
            if (open[0] !== undefined) expect(slot.confirmed).toBeLessThan(open[0].end)
            at += 10n
          }
        },
      ),
    )
  })
})

describe('changes', () => {
  const place = { lsn: '0/1', xid: 5, commitTime: '2026-01-01T00:00:00.000Z', isSnapshot: false, database: 'db' }
  const changes = (message: Parameters<typeof toChanges>[0], settings = {}, of = relation) =>
    toChanges(message, of, { envelopeFormat: 'row', ...settings }, place)

  test('a changed key deletes the old row and inserts another', () => {
    const found = changes({ kind: 'update', relation: 7, before: { kind: 'K', values: ['1', null] }, after: ['2', 'x'] })
    expect(found.map(({ text: json, key, metadata }) => [json, key, metadata['operation'], metadata['id']])).toEqual([
      ['{"id":1}', '1', 'delete', 1],
      ['{"id":2,"a":"x"}', '2', 'insert', 2],
    ])
  })

  test('an unchanged large value is absent and listed unless the old row is known', () => {
    expect(changes({ kind: 'update', relation: 7, before: undefined, after: ['1', undefined] })[0]).toMatchObject({
      text: '{"id":1}',
      metadata: { unchanged: ['a'] },
    })
    const full = { ...relation, identity: 'f', columns: relation.columns.map((column) => ({ ...column, isKey: true })) }
    const [found] = changes(
      { kind: 'update', relation: 7, before: { kind: 'O', values: ['1', 'large'] }, after: ['1', undefined] },
      {},
      full,
    )
    expect(found).toMatchObject({ text: '{"id":1,"a":"large"}', key: '1', metadata: { operation: 'update', id: 1 } })
    expect(found?.metadata).not.toHaveProperty('unchanged')
  })

  test('includeColumns and excludeColumns keep the key', () => {
    const insert = { kind: 'insert', relation: 7, after: ['1', 'x'] } as const
    expect(changes(insert, { includeColumns: ['a'] })[0]).toMatchObject({ text: '{"a":"x"}', key: '1' })
    expect(changes(insert, { excludeColumns: ['a'] })[0]).toMatchObject({ text: '{"id":1}' })
    expect(changes(insert, { primaryKeyColumn: 'a' })[0]).toMatchObject({ key: 'x', metadata: { id: 'x' } })
  })

  test('a change is wrapped in a Debezium envelope', () => {
    const [found] = changes({ kind: 'delete', relation: 7, before: { kind: 'K', values: ['1', null] } }, { envelopeFormat: 'debezium' })
    expect(JSON.parse(found!.text)).toEqual({
      payload: {
        op: 'd',
        before: { id: 1 },
        after: null,
        source: {
          connector: 'postgresql',
          db: 'db',
          schema: 'public',
          table: 't',
          lsn: '0/1',
          txId: 5,
          ts_ms: 1767225600000,
          snapshot: 'false',
        },
      },
    })
  })
})
